// Writing, reading and merging of statistics files.
#include "compiler/calibration/statistics_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"
#include "compiler/support/mapped_file.h"

namespace npuc {
namespace {

constexpr uint32_t kVersion = 1;

class Writer {
public:
  void Fixed(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i)
      out.push_back(static_cast<char>(v >> (8 * i)));
  }
  void Count(uint64_t v) {
    for (; v >= 128; v >>= 7)
      out.push_back(static_cast<char>(v | 128));
    out.push_back(static_cast<char>(v));
  }
  void Float(float v) { Fixed(std::bit_cast<uint32_t>(v), 4); }
  void Text(std::string_view s) {
    Count(s.size());
    out += s;
  }
  // Runs of full bins: gap before it, length, counts; ends with a length of 0.
  void Bins(const std::vector<uint64_t> &bins) {
    size_t last = 0;
    for (size_t i = 0; i < bins.size();) {
      if (bins[i] == 0) {
        ++i;
        continue;
      }
      size_t end = i;
      while (end < bins.size() && bins[end])
        ++end;
      Count(end - i);
      Count(i - last);
      for (; i < end; ++i)
        Count(bins[i]);
      last = end;
    }
    Count(0);
  }
  std::string out;
};

// Reads what Writer wrote; after the first thing that does not fit, everything is 0 and good() false.
class Reader {
public:
  explicit Reader(std::string_view in) : in_(in) {}
  bool good() const { return good_; }
  bool at_end() const { return in_.empty(); }
  uint64_t Fixed(int bytes) {
    const std::string_view s = Take(bytes);
    uint64_t v = 0;
    for (size_t i = 0; i < s.size(); ++i)
      v |= static_cast<uint64_t>(static_cast<uint8_t>(s[i])) << (8 * i);
    return v;
  }
  uint64_t Count() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = Fixed(1);
      v |= (byte & 127) << shift;
      if (byte < 128)
        return v;
    }
    good_ = false;
    return 0;
  }
  // A number of things that take at least `bytes` each.
  size_t Length(size_t bytes = 1) {
    const uint64_t n = Count();
    if (n > in_.size() / bytes)
      good_ = false;
    return good_ ? n : 0;
  }
  float Float() { return std::bit_cast<float>(static_cast<uint32_t>(Fixed(4))); }
  std::string Text() { return std::string(Take(Length())); }
  std::vector<uint64_t> Bins() {
    std::vector<uint64_t> bins;
    size_t at = 0;
    while (const uint64_t run = Count()) {
      const uint64_t gap = Count();
      if (gap > Histogram::kBins || run > Histogram::kBins || at + gap + run > Histogram::kBins) {
        good_ = false;
        return {};
      }
      bins.resize(Histogram::kBins);
      at += gap;
      for (uint64_t i = 0; i < run; ++i)
        bins[at++] = Count();
    }
    return bins;
  }

private:
  std::string_view Take(size_t n) {
    if (n > in_.size()) {
      good_ = false;
      in_ = {};
      return {};
    }
    const std::string_view s = in_.substr(0, n);
    in_.remove_prefix(n);
    return s;
  }
  std::string_view in_;
  bool good_ = true;
};

void WriteTensor(Writer &w, const TensorStatistics &t) {
  w.Count(t.count);
  w.Count(t.zero_count);
  w.Count(t.nan_count);
  w.Count(t.inf_count);
  w.Float(t.min);
  w.Float(t.max);
  w.Count(t.histogram.exponent - Histogram::kMinExponent);
  w.Bins(t.histogram.negative);
  w.Bins(t.histogram.positive);
  w.Count(t.channels.axis - ChannelStatistics::kUnset);
  w.Count(t.channels.size());
  for (int64_t c = 0; c < t.channels.size(); ++c) {
    w.Float(t.channels.min[c]);
    w.Float(t.channels.max[c]);
    w.Count(t.channels.count[c]);
    const auto sum = static_cast<unsigned __int128>(t.channels.sum[c]);
    w.Fixed(static_cast<uint64_t>(sum), 8);
    w.Fixed(static_cast<uint64_t>(sum >> 64), 8);
  }
  w.Count(t.samples.size());
  for (const SampleRange &r : t.samples) {
    w.Count(r.sample);
    w.Float(r.min);
    w.Float(r.max);
  }
}

TensorStatistics ReadTensor(Reader &r) {
  TensorStatistics t;
  t.count = static_cast<int64_t>(r.Count());
  t.zero_count = static_cast<int64_t>(r.Count());
  t.nan_count = static_cast<int64_t>(r.Count());
  t.inf_count = static_cast<int64_t>(r.Count());
  t.min = r.Float();
  t.max = r.Float();
  t.histogram.exponent =
      static_cast<int>(std::min<uint64_t>(r.Count(), 128 - Histogram::kMinExponent)) + Histogram::kMinExponent;
  t.histogram.negative = r.Bins();
  t.histogram.positive = r.Bins();
  t.channels.axis = static_cast<int>(std::min<uint64_t>(r.Count(), 64)) + ChannelStatistics::kUnset;
  for (size_t n = r.Length(25); n > 0 && r.good(); --n) {
    t.channels.min.push_back(r.Float());
    t.channels.max.push_back(r.Float());
    t.channels.count.push_back(static_cast<int64_t>(r.Count()));
    const uint64_t low = r.Fixed(8), high = r.Fixed(8);
    t.channels.sum.push_back(static_cast<__int128>(static_cast<unsigned __int128>(high) << 64 | low));
  }
  for (size_t n = r.Length(9); n > 0 && r.good(); --n) {
    SampleRange s{};
    s.sample = static_cast<int64_t>(r.Count());
    s.min = r.Float();
    s.max = r.Float();
    t.samples.push_back(s);
  }
  return t;
}

} // namespace

std::string StatisticsBytes(const StatisticsFile &f) {
  Writer w;
  w.out = kStatisticsMagic;
  w.Fixed(kVersion, 4);
  w.Fixed(0, 4);
  w.Text(f.model);
  w.Text(f.model_sha256);
  w.Fixed(f.graph_hash, 8);
  w.Fixed(f.set_hash, 8);
  w.Count(f.set_size);
  w.Count(f.samples.size());
  for (const StatisticsFile::Sample &s : f.samples) {
    w.Count(s.index);
    w.Text(s.name);
    w.Fixed(s.hash, 8);
  }
  w.Count(f.table.tensors().size());
  for (const auto &[name, t] : f.table.tensors()) {
    w.Text(name);
    WriteTensor(w, t);
  }
  w.Fixed(Xxh3(w.out), 8);
  return std::move(w.out);
}

StatusOr<StatisticsFile> ParseStatistics(std::string_view bytes, std::string_view name) {
  auto fail = [&](std::string message) {
    return AtFile(Error("E0103", std::move(message), "make it anew with npu-quant calibrate"), name);
  };
  if (!bytes.starts_with(kStatisticsMagic))
    return fail("these are not calibration statistics");
  if (bytes.size() < kStatisticsMagic.size() + 16)
    return fail("the statistics are cut off");
  Reader r(bytes.substr(kStatisticsMagic.size(), bytes.size() - kStatisticsMagic.size() - 8));
  const uint64_t version = r.Fixed(4);
  if (version != kVersion)
    return fail(fmt::format("statistics of version {}; this npu-quant reads version {}", version, kVersion));
  if (Reader(bytes.substr(bytes.size() - 8)).Fixed(8) != Xxh3(bytes.substr(0, bytes.size() - 8)))
    return fail("the statistics are damaged: the checksum differs");
  r.Fixed(4);
  StatisticsFile f;
  f.model = r.Text();
  f.model_sha256 = r.Text();
  f.graph_hash = r.Fixed(8);
  f.set_hash = r.Fixed(8);
  f.set_size = static_cast<int64_t>(r.Count());
  for (size_t n = r.Length(10); n > 0 && r.good(); --n) {
    StatisticsFile::Sample s{};
    s.index = static_cast<int64_t>(r.Count());
    s.name = r.Text();
    s.hash = r.Fixed(8);
    f.samples.push_back(std::move(s));
  }
  for (size_t n = r.Length(); n > 0 && r.good(); --n) {
    const std::string tensor = r.Text();
    f.table[tensor] = ReadTensor(r);
  }
  if (!r.good() || !r.at_end())
    return fail("the statistics are malformed");
  return f;
}

StatusOr<StatisticsFile> ReadStatistics(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseStatistics(file.text(), path);
}

bool LooksLikeStatistics(const std::string &path) {
  auto file = MappedFile::Open(path);
  return file.ok() && file->text().starts_with(kStatisticsMagic);
}

StatusOr<StatisticsFile> MergeStatistics(std::vector<StatisticsFile> files, std::span<const std::string> names) {
  NPUC_CHECK(!files.empty() && files.size() == names.size());
  StatisticsFile all = std::move(files[0]);
  std::vector<size_t> from(all.samples.size(), 0); // which file brought a sample
  for (size_t i = 1; i < files.size(); ++i) {
    StatisticsFile &f = files[i];
    auto fail = [&](std::string message, std::string help) {
      return AtFile(Error("E0511", std::move(message), std::move(help)), names[i]);
    };
    if (f.model_sha256 != all.model_sha256)
      return fail(fmt::format("statistics of another model ({}) than in {} ({})", f.model, names[0], all.model),
                  "merge shards of one model only");
    if (f.graph_hash != all.graph_hash)
      return fail(
          fmt::format("the model was calibrated with other shapes, values or optimisation than in {}", names[0]),
          "give npu-quant calibrate the same flags for every shard");
    if (f.set_hash != all.set_hash || f.set_size != all.set_size)
      return fail(fmt::format("statistics of another set of samples ({} in all) than in {} ({} in all)", f.set_size,
                              names[0], all.set_size),
                  "give every shard the same samples and the same --preprocess; --shard I/N takes its part");
    std::vector<StatisticsFile::Sample> samples;
    std::vector<size_t> sources;
    auto a = all.samples.begin();
    for (auto b = f.samples.begin(); a != all.samples.end() || b != f.samples.end();) {
      const bool first = b == f.samples.end() || (a != all.samples.end() && a->index < b->index);
      if (!first && a != all.samples.end() && a->index == b->index)
        return fail(
            fmt::format("sample {} ('{}') is in {} too", b->index, b->name, names[from[a - all.samples.begin()]]),
            "give each shard once");
      sources.push_back(first ? from[a - all.samples.begin()] : i);
      samples.push_back(first ? *a++ : *b++);
    }
    all.samples = std::move(samples);
    from = std::move(sources);
    all.table.Merge(f.table);
  }
  return all;
}

} // namespace npuc
