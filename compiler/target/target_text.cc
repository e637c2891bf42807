// The YAML form of a Target. One description of the keys, walked by a reader and by a writer, so that the two cannot
// differ: Describe(v, target) names every key in file order with its type and range.
#include "compiler/support/diagnostic.h"
#include "compiler/support/yaml.h"
#include "compiler/target/target.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <bit>

#include <fmt/ranges.h>

namespace npuc {
namespace {

constexpr int64_t kBig = int64_t{1} << 40;
const Rational kLeast(1, 1000000), kMost(1000000000);

constexpr DType kTensorTypes[] = {DType::I8, DType::U8, DType::I16, DType::F16};
constexpr DType kLaneTypes[] = {DType::I8, DType::U8, DType::I16, DType::F16, DType::I32, DType::F32};

std::string NamesOf(llvm::ArrayRef<DType> types) {
  std::vector<std::string_view> names;
  for (const DType t : types)
    names.push_back(Name(t));
  return fmt::format("{}", fmt::join(names, ", "));
}

// ---- reader

class Reader {
public:
  Reader(const YamlDocument &document, YamlMap *map) : document_(document), map_(map) {}

  const Status &status() const { return status_; }
  Status Finish() {
    if (status_.ok())
      status_ = map_->Finish();
    return status_;
  }

  void Text(std::string_view key, std::string &value, bool is_name) {
    const YamlNode *node = Get(key);
    if (!node)
      return;
    Take(document_.String(*node, map_->Path(key)), value);
    if (status_.ok() && is_name &&
        (value.empty() || value.size() > 64 ||
         value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
             std::string::npos))
      status_ = document_.Wrong(*node, map_->Path(key), "1 to 64 letters, digits, '.', '_' and '-'");
  }

  void Whole(std::string_view key, int64_t &value, int64_t lo, int64_t hi, bool power_of_two = false) {
    const YamlNode *node = Get(key);
    if (!node)
      return;
    Take(document_.Int(*node, map_->Path(key), lo, hi), value);
    if (status_.ok() && power_of_two && !std::has_single_bit(static_cast<uint64_t>(value)))
      status_ = document_.Wrong(*node, map_->Path(key), fmt::format("a power of two from {} to {}", lo, hi));
  }

  void Decimal(std::string_view key, Rational &value, Rational lo, Rational hi) {
    if (const YamlNode *node = Get(key))
      value = ReadDecimal(*node, map_->Path(key), lo, hi);
  }

  void Pair(std::string_view key, std::array<int64_t, 2> &value, int64_t hi) {
    const YamlNode *node = Get(key);
    if (!node)
      return;
    if (node->kind != YamlNode::Kind::list || node->items.size() != 2) {
      status_ = document_.Wrong(*node, map_->Path(key), fmt::format("[height, width], each from 1 to {}", hi));
      return;
    }
    for (size_t i = 0; i < 2 && status_.ok(); ++i)
      Take(document_.Int(node->items[i], map_->Path(key), 1, hi), value[i]);
  }

  void Types(std::string_view key, std::vector<DType> &value) {
    const YamlNode *node = Get(key);
    if (!node)
      return;
    for (const YamlNode &item : List(*node, key)) {
      const auto at =
          std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes), [&](DType t) { return Name(t) == item.text; });
      if (at == std::end(kTensorTypes) || std::count(value.begin(), value.end(), *at)) {
        status_ = document_.Wrong(item, map_->Path(key), "each of " + NamesOf(kTensorTypes) + " at most once");
        return;
      }
      value.push_back(*at);
    }
    if (status_.ok() && value.empty())
      status_ = document_.Wrong(*node, map_->Path(key), "at least one of " + NamesOf(kTensorTypes));
    const auto rank = [](DType t) { return std::find(std::begin(kTensorTypes), std::end(kTensorTypes), t); };
    std::sort(value.begin(), value.end(), [&](DType a, DType b) { return rank(a) < rank(b); });
  }

  void Traversals(std::string_view key, std::vector<Traversal> &value) {
    const YamlNode *node = Get(key);
    if (!node)
      return;
    for (const YamlNode &item : List(*node, key)) {
      bool good = false;
      for (int i = 0; i < 4; ++i)
        if (const auto t = static_cast<Traversal>(i);
            Name(t) == item.text && !std::count(value.begin(), value.end(), t)) {
          value.push_back(t);
          good = true;
        }
      if (!good) {
        status_ = document_.Wrong(item, map_->Path(key), "each of depth, row, kernel, part_kernel at most once");
        return;
      }
    }
    std::sort(value.begin(), value.end());
    if (status_.ok() && (value.empty() || value[0] != Traversal::Depth))
      status_ = document_.Wrong(*node, map_->Path(key), "a list with depth in it");
  }

  // `must`: types that need an entry; `may`: all that can have one.
  void Table(std::string_view key, DTypeTable &value, llvm::ArrayRef<DType> must, llvm::ArrayRef<DType> may,
             bool whole) {
    Nested(key, [&](Reader &r) {
      for (const DType t : may) {
        const bool needed = llvm::is_contained(must, t);
        if (!needed && !r.map_->Find(Name(t)))
          continue;
        if (whole) {
          int64_t lanes = 0;
          r.Whole(Name(t), lanes, 1, 256);
          if (r.status_.ok() && lanes * ByteSize(t) % 16 != 0)
            r.status_ = document_.Wrong(*r.map_->Find(Name(t)), r.map_->Path(Name(t)),
                                        "a number of lanes that fills whole units of 16 bytes");
          value.Set(t, Rational(lanes));
        } else {
          Rational rate;
          r.Decimal(Name(t), rate, kLeast, kMost);
          value.Set(t, rate);
        }
      }
    });
  }

  void Passes(std::string_view key, std::array<Rational, kNumVpuFunctions> &value) {
    Nested(key, [&](Reader &r) {
      for (int i = 0; i < kNumVpuFunctions; ++i)
        r.Decimal(Name(static_cast<VpuFunction>(i)), value[static_cast<size_t>(i)], kLeast, Rational(100000));
    });
  }

  void Section(std::string_view key, llvm::function_ref<void(Reader &)> fn) { Nested(key, fn); }

  // A rule over several keys; reported at `key` of this map.
  void Rule(std::string_view key, bool holds, std::string_view allowed) {
    if (!status_.ok() || holds)
      return;
    if (const YamlNode *node = Get(key))
      status_ = document_.Wrong(*node, map_->Path(key), allowed);
  }

private:
  const YamlNode *Get(std::string_view key) {
    if (!status_.ok())
      return nullptr;
    StatusOr<const YamlNode *> node = map_->Require(key);
    if (!node.ok()) {
      status_ = node.status();
      return nullptr;
    }
    return *node;
  }

  template <typename T> void Take(StatusOr<T> from, T &to) {
    if (from.ok())
      to = *std::move(from);
    else
      status_ = from.status();
  }

  std::span<const YamlNode> List(const YamlNode &node, std::string_view key) {
    std::span<const YamlNode> items;
    Take(document_.List(node, map_->Path(key)), items);
    return items;
  }

  Rational ReadDecimal(const YamlNode &node, const std::string &what, Rational lo, Rational hi) {
    const std::optional<Rational> value =
        node.kind == YamlNode::Kind::scalar && !node.quoted ? Rational::Parse(node.text) : std::nullopt;
    if (!value || *value < lo || *value > hi) {
      status_ = document_.Wrong(
          node, what, fmt::format("a decimal number from {} to {}, at most 9 decimals", lo.ToString(), hi.ToString()));
      return {};
    }
    return *value;
  }

  void Nested(std::string_view key, llvm::function_ref<void(Reader &)> fn) {
    const YamlNode *node = Get(key);
    if (!node)
      return;
    StatusOr<YamlMap> map = document_.Map(*node, map_->Path(key));
    if (!map.ok()) {
      status_ = map.status();
      return;
    }
    Reader inner(document_, &*map);
    fn(inner);
    status_ = inner.Finish();
  }

  const YamlDocument &document_;
  YamlMap *map_;
  Status status_;
};

// ---- writer: the same calls make the canonical text

class Writer {
public:
  explicit Writer(std::string *out, std::string indent = "") : out_(*out), indent_(std::move(indent)) {}

  void Text(std::string_view key, const std::string &value, bool is_name) {
    Line(key, is_name ? value : YamlQuoted(value));
  }
  void Whole(std::string_view key, int64_t value, int64_t, int64_t, bool = false) { Line(key, std::to_string(value)); }
  void Decimal(std::string_view key, const Rational &value, Rational, Rational) { Line(key, value.ToString()); }
  void Pair(std::string_view key, const std::array<int64_t, 2> &value, int64_t) {
    Line(key, fmt::format("[{}, {}]", value[0], value[1]));
  }
  void Types(std::string_view key, const std::vector<DType> &value) { Line(key, "[" + NamesOf(value) + "]"); }
  void Traversals(std::string_view key, const std::vector<Traversal> &value) {
    std::vector<std::string_view> names;
    for (const Traversal t : value)
      names.push_back(Name(t));
    Line(key, fmt::format("[{}]", fmt::join(names, ", ")));
  }
  void Table(std::string_view key, const DTypeTable &value, llvm::ArrayRef<DType>, llvm::ArrayRef<DType> may, bool) {
    std::vector<std::string> entries;
    for (const DType t : may)
      if (value.Has(t))
        entries.push_back(fmt::format("{}: {}", Name(t), value[t].ToString()));
    Line(key, fmt::format("{{ {} }}", fmt::join(entries, ", ")));
  }
  void Passes(std::string_view key, const std::array<Rational, kNumVpuFunctions> &value) {
    std::vector<std::string> entries;
    for (int i = 0; i < kNumVpuFunctions; ++i)
      entries.push_back(
          fmt::format("{}: {}", Name(static_cast<VpuFunction>(i)), value[static_cast<size_t>(i)].ToString()));
    Line(key, fmt::format("{{ {} }}", fmt::join(entries, ", ")));
  }
  void Section(std::string_view key, llvm::function_ref<void(Writer &)> fn) {
    out_ += fmt::format("{}{}:\n", indent_, key);
    Writer inner(&out_, indent_ + "  ");
    fn(inner);
  }
  void Rule(std::string_view, bool, std::string_view) {}

private:
  void Line(std::string_view key, std::string_view value) { out_ += fmt::format("{}{}: {}\n", indent_, key, value); }
  std::string &out_;
  std::string indent_;
};

// ---- the keys

template <typename V, typename T> void Describe(V &v, T &t) {
  v.Text("name", t.name, true);
  v.Text("description", t.description, false);
  v.Decimal("clock_mhz", t.clock_mhz, kLeast, Rational(100000));
  v.Whole("issue_cycles", t.issue_cycles, 0, 1000000);
  v.Types("dtypes", t.dtypes);
  const std::vector<DType> &types = t.dtypes;
  std::vector<DType> lane_types = types;
  lane_types.insert(lane_types.end(), {DType::I32, DType::F32});
  v.Section("mxu", [&](V &s) {
    s.Whole("px", t.mxu.px, 1, 4096);
    s.Whole("oc", t.mxu.oc, 1, 4096);
    s.Whole("ic", t.mxu.ic, 1, 4096);
    s.Traversals("traversals", t.mxu.traversals);
    s.Whole("dw_taps", t.mxu.dw_taps, 1, 4096);
    s.Whole("dw_granule", t.mxu.dw_granule, 1, 4096);
    s.Table("mac_rate", t.mxu.mac_rate, types, types, false);
    s.Whole("acc_bytes", t.mxu.acc_bytes, 1, kBig);
    s.Rule("acc_bytes", t.mxu.acc_bytes % 2 == 0 && t.mxu.acc_bytes / 2 >= 8 * t.mxu.oc,
           "an even number with room for oc 48-bit accumulators (8 bytes each) in each half");
    s.Whole("ibuf_bytes", t.mxu.ibuf_bytes, 0, kBig);
    s.Whole("pipeline_fill", t.mxu.pipeline_fill, 0, 1000000);
    s.Decimal("weight_bytes_per_cycle", t.mxu.weight_bytes_per_cycle, kLeast, kMost);
    s.Table("ppu_rate", t.mxu.ppu_rate, types, types, false);
  });
  v.Section("vpu", [&](V &s) {
    s.Table("lanes", t.vpu.lanes, lane_types, lane_types, false);
    s.Passes("passes", t.vpu.passes);
  });
  v.Section("sram", [&](V &s) {
    s.Whole("bytes", t.sram.bytes, 4096, kBig);
    s.Rule("bytes", t.sram.bytes % 16 == 0, "a multiple of 16");
    s.Decimal("bytes_per_cycle", t.sram.bytes_per_cycle, kLeast, kMost);
  });
  v.Section("dma", [&](V &s) {
    s.Decimal("ddr_bytes_per_cycle", t.dma.ddr_bytes_per_cycle, kLeast, kMost);
    s.Whole("ddr_burst_bytes", t.dma.ddr_burst_bytes, 1, 65536, true);
    s.Whole("read_latency", t.dma.read_latency, 0, 1000000);
    s.Whole("write_latency", t.dma.write_latency, 0, 1000000);
    s.Whole("outstanding", t.dma.outstanding, 1, 4096);
    s.Decimal("rearrange_elems_per_cycle", t.dma.rearrange_elems_per_cycle, kLeast, kMost);
  });
  v.Section("layout", [&](V &s) { s.Table("c2", t.c2, types, types, true); });
  v.Section("limits", [&](V &s) {
    s.Pair("kernel_max", t.limits.kernel_max, 4096);
    s.Pair("stride_max", t.limits.stride_max, 4096);
    s.Pair("dilation_max", t.limits.dilation_max, 4096);
    s.Whole("dims_max", t.limits.dims_max, 256, int64_t{1} << 30);
  });
  v.Section("host", [&](V &s) {
    s.Decimal("gflops", t.host.gflops, kLeast, kMost);
    s.Decimal("bytes_per_ns", t.host.bytes_per_ns, kLeast, kMost);
  });
  v.Section("energy", [&](V &s) {
    // Prices of types that this machine lacks may stay: descriptions of one family share the table.
    const DType least[] = {DType::I8};
    std::vector<DType> must(std::begin(least), std::end(least));
    for (const DType d : types)
      if (d != DType::U8 && d != DType::I8)
        must.push_back(d);
    s.Table("pj_mac", t.energy.pj_mac, must, kTensorTypes, false);
    s.Decimal("pj_sram_byte", t.energy.pj_sram_byte, Rational(0), kMost);
    s.Decimal("pj_ddr_byte", t.energy.pj_ddr_byte, Rational(0), kMost);
    s.Decimal("idle_mw", t.energy.idle_mw, Rational(0), kMost);
  });
}

} // namespace

StatusOr<Target> Target::FromText(std::string_view text, std::string_view file) {
  static constexpr YamlCodes codes{"E0502", "E0503", "E0504", "E0505"};
  NPUC_ASSIGN_OR_RETURN(YamlDocument document, YamlDocument::Parse(text, file, codes));
  NPUC_ASSIGN_OR_RETURN(YamlMap map, document.Map(document.root(), ""));
  Target target;
  Reader reader(document, &map);
  Describe(reader, target);
  NPUC_RETURN_IF_ERROR(reader.Finish());
  return target;
}

std::string Target::ToCanonicalYaml() const {
  std::string out;
  Writer writer(&out);
  Describe(writer, *this);
  return out;
}

} // namespace npuc
