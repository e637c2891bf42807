// Which file holds which input of which sample. Files are opened when their sample is read, but for .npy and .npz,
// whose shapes say how many samples they have.
#include "compiler/driver/sample_set.h"

#include <algorithm>
#include <filesystem>

#include "compiler/onnx/tensor_proto.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"
#include "compiler/support/npy.h"

namespace npuc {
namespace fs = std::filesystem;
namespace {

std::string LowerSuffix(const fs::path &p) {
  std::string s = p.extension().string();
  for (char &c : s)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  return s;
}

bool IsDataSet(const fs::path &folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "input_0.pb", error);
}

struct Source {
  std::string path, base;
  bool data_set = false;
};

// The files of a path, in order.
StatusOr<std::vector<Source>> SourcesOf(const std::string &path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error))
      return AtFile(Error("E0101", "there is no such file or folder", "--calib takes a file or a folder of samples"),
                    path);
    return std::vector<Source>{{path, fs::path(path).filename().string()}};
  }
  if (IsDataSet(path))
    return std::vector<Source>{{path, fs::path(path).filename().string(), true}};
  std::vector<Source> sources;
  int64_t others = 0;
  auto it = fs::directory_iterator(path, error);
  if (error)
    return AtFile(Error("E0101", "the folder cannot be read: " + error.message()), path);
  for (const fs::directory_entry &entry : it) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("."))
      continue;
    const bool folder = entry.is_directory(error);
    const bool sample = folder ? IsDataSet(entry.path())
                               : std::find(std::begin(kSampleSuffixes), std::end(kSampleSuffixes),
                                           LowerSuffix(entry.path())) != std::end(kSampleSuffixes);
    if (sample)
      sources.push_back({entry.path().string(), name, folder});
    else
      ++others;
  }
  if (sources.empty())
    return AtFile(Error("E0509",
                        others ? fmt::format("none of the {} entries of the folder is a sample", others)
                               : "the folder is empty: there are no samples",
                        fmt::format("samples end in {}", fmt::join(kSampleSuffixes, ", "))),
                  path);
  std::sort(sources.begin(), sources.end(), [](const Source &a, const Source &b) { return a.base < b.base; });
  return sources;
}

// How many of the first axis one sample takes when a tensor holds several: 0, each is a slice without that axis;
// nullopt: the tensor is one sample (or does not fit, which reading it will say).
std::optional<int64_t> RowsOfASample(const Tensor &t, const Type &type) {
  if (!type.is_tensor() || !type.shape().ranked() || t.rank() == 0)
    return std::nullopt;
  const Shape &want = type.shape();
  auto fits = [&](int axis, int64_t extent) { return !want[axis].is_static() || want[axis].value() == extent; };
  auto tail_fits = [&](int from) {
    for (int d = from; d < want.rank(); ++d)
      if (!fits(d, t.dims()[d + t.rank() - want.rank()]))
        return false;
    return true;
  };
  if (t.rank() == want.rank() + 1 && tail_fits(0))
    return 0;
  if (t.rank() == want.rank() && tail_fits(1) && want[0].is_static() && want[0].value() > 0 &&
      t.dims()[0] > want[0].value() && t.dims()[0] % want[0].value() == 0)
    return want[0].value();
  return std::nullopt;
}

Tensor SliceOf(const std::shared_ptr<const Tensor> &stack, int64_t slice, int64_t rows) {
  Dims dims(stack->dims().begin() + (rows == 0), stack->dims().end());
  if (rows)
    dims[0] = rows;
  const int64_t bytes = NumElements(dims) * ByteSize(stack->dtype());
  return Tensor::View(stack->dtype(), dims, stack->bytes() + slice * bytes, stack);
}

std::string Names(const std::vector<SampleSet::Input> &inputs) {
  std::string names;
  for (const auto &i : inputs)
    names += fmt::format("{}'{}' ({})", names.empty() ? "" : ", ", i.name, i.type.ToString());
  return names;
}

} // namespace

std::string SampleSet::Piece::SampleName() const {
  return slice < 0 ? base : fmt::format("{}[{}]", base, slice);
}

StatusOr<std::vector<SampleSet::Piece>> SampleSet::Expand(const std::string &path, const Input &input, size_t number,
                                                          bool joint) {
  NPUC_ASSIGN_OR_RETURN(const std::vector<Source> sources, SourcesOf(path));
  std::vector<Piece> pieces;
  for (const Source &source : sources) {
    if (source.data_set) {
      const std::string file = fmt::format("input_{}.pb", number);
      pieces.push_back({.path = source.path + "/" + file, .base = source.base, .stack = nullptr});
      continue;
    }
    const std::string suffix = LowerSuffix(source.path);
    if (joint && suffix != ".npz")
      return AtFile(Error("E0701", "the file has a value for one input; the model has several",
                          "say which: --calib NAME=PATH for each input"),
                    source.path);
    std::shared_ptr<const Tensor> stack;
    if (suffix == ".npy") {
      NPUC_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(source.path));
      NPUC_ASSIGN_OR_RETURN(Tensor t, TensorFromNpy(array, source.path));
      stack = std::make_shared<const Tensor>(std::move(t));
    } else if (suffix == ".npz") {
      NPUC_ASSIGN_OR_RETURN(const EvalValue value, ReadInputValue(source.path, input.name, input.type));
      if (value.tensor())
        stack = std::make_shared<const Tensor>(*value.tensor());
    }
    const std::optional<int64_t> rows = stack ? RowsOfASample(*stack, input.type) : std::nullopt;
    if (!rows) {
      pieces.push_back({.path = source.path, .base = source.base, .stack = nullptr});
      continue;
    }
    const int64_t n = stack->dims()[0] / std::max<int64_t>(1, *rows);
    for (int64_t i = 0; i < n; ++i)
      pieces.push_back({.path = source.path, .base = source.base, .stack = stack, .slice = i, .rows = *rows});
  }
  return pieces;
}

StatusOr<SampleSet> SampleSet::Open(const std::vector<std::string> &calib, std::vector<Input> inputs,
                                    Preprocess preprocess) {
  SampleSet set;
  set.inputs_ = std::move(inputs);
  set.preprocess_ = std::move(preprocess);
  const std::vector<Input> &all = set.inputs_;
  set.pieces_.resize(all.size());
  std::vector<std::string> names;
  for (const Input &i : all)
    names.push_back(i.name);
  std::error_code error;
  std::vector<bool> repeated(all.size(), false); // a single file, for every sample
  for (const std::string &argument : calib) {
    const NamedFile named = SplitNamedFile(argument, names);
    if (named.name.empty() && named.file.find('=') != std::string::npos && !fs::exists(named.file, error))
      return Error(
          "E0701",
          fmt::format("--calib {}: the model has no input '{}'", argument, argument.substr(0, argument.find('='))),
          "its inputs are: " + Names(all));
    const bool joint = named.name.empty() && all.size() > 1;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!named.name.empty() && named.name != all[i].name)
        continue;
      NPUC_ASSIGN_OR_RETURN(std::vector<Piece> pieces, Expand(named.file, all[i], i, joint));
      repeated[i] = set.pieces_[i].empty() && pieces.size() == 1 && !joint && !fs::is_directory(named.file, error);
      set.pieces_[i].insert(set.pieces_[i].end(), std::make_move_iterator(pieces.begin()),
                            std::make_move_iterator(pieces.end()));
    }
  }
  size_t longest = 0; // the input that says how many samples there are
  for (size_t i = 0; i < all.size(); ++i) {
    if (set.pieces_[i].empty())
      return Error("E0701",
                   fmt::format("--calib has no samples for input '{}' ({})", all[i].name, all[i].type.ToString()),
                   "give --calib NAME=PATH for each input, or a folder of .npz files with all of them");
    if (set.pieces_[i].size() > set.pieces_[longest].size())
      longest = i;
  }
  set.size_ = all.empty() ? 0 : static_cast<int64_t>(set.pieces_[longest].size());
  for (size_t i = 0; i < all.size(); ++i)
    if (set.pieces_[i].size() != set.pieces_[longest].size() && !repeated[i])
      return Error("E0510",
                   fmt::format("--calib has {} samples for input '{}' and {} for '{}'", set.pieces_[i].size(),
                               all[i].name, set.pieces_[longest].size(), all[longest].name),
                   "inputs pair up in the order of the files' names: give equally many, or one file for all");
  return set;
}

// The piece that a sample is called after: of the first input that has one for each.
const SampleSet::Piece &SampleSet::PieceOf(int64_t sample) const {
  for (const auto &pieces : pieces_)
    if (static_cast<int64_t>(pieces.size()) == size_)
      return pieces[sample];
  NPUC_CHECK(false, "no input has {} samples", size_);
}

std::string SampleSet::name(int64_t sample) const {
  const Piece &p = PieceOf(sample);
  return p.slice < 0 ? p.path : fmt::format("{}[{}]", p.path, p.slice);
}

std::string SampleSet::base_name(int64_t sample) const {
  return PieceOf(sample).SampleName();
}

uint64_t SampleSet::NamesHash() const {
  Xxh3Stream h;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    h.Update(inputs_[i].name + "\n");
    for (const Piece &p : pieces_[i])
      h.Update(p.SampleName() + "\n");
  }
  return h.Digest();
}

StatusOr<EvalValue> SampleSet::ReadPiece(const Piece &piece, const Input &input) const {
  if (piece.stack)
    return EvalValue(SliceOf(piece.stack, piece.slice, piece.rows));
  return ReadInputValue(piece.path, input.name, input.type, preprocess_);
}

StatusOr<std::vector<EvalValue>> SampleSet::Read(int64_t sample) const {
  std::vector<EvalValue> values;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Piece &piece = pieces_[i][pieces_[i].size() == 1 ? 0 : sample];
    auto value = ReadPiece(piece, inputs_[i]);
    if (!value.ok())
      return AtFile(value.status(), piece.path);
    values.push_back(*std::move(value));
  }
  return values;
}

} // namespace npuc
