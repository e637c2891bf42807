// The user's say in quantisation, npuc's --quant-config and what npu-quant search writes: a YAML file.
//
//   precision: int8             # of nodes without an entry: int8, int16 or fp16; default: --precision
//   nodes:                      # later entries win over earlier ones, key by key
//     - node: /backbone/conv1   # an id, a name, or a pattern with * and ?
//       precision: int16        # int8, int16 or fp16
//       weights: int4           # int8 or int4: the integers of constant weights
//       weight_only: true       # weights only; activations stay fp16 (precision: fp16)
//       group: 32               # weights_only: one scale for so many input channels; default: one for each output
//       channel method: percentile      # how its result's range is chosen from the samples: minmax, percentile,
//       entropy, mse range: [-4, 4]          # of its result, instead of samples; or: scale: 0.05 zero_point: 128
//   tensors:                    # the same of a tensor, a model input say
//     - tensor: input
//       range: [0, 1]
//
// A zero point is in the units of the stored type: u8 for int8, i16 for int16 (where it must be 0).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace npuc {

enum class Precision : uint8_t { Auto, Fp16, Int8, Int16, Fp32 };
std::string_view Name(Precision p); // "auto", "fp16", ...
std::optional<Precision> ParsePrecision(std::string_view name);

struct TensorQuant {
  std::optional<std::string> method;
  std::optional<std::pair<float, float>> range; // low <= 0 <= high is made true by the quantiser
  std::optional<float> scale;
  std::optional<int32_t> zero_point;
  bool operator==(const TensorQuant &) const = default;
};

struct NodeQuant {
  std::optional<Precision> precision;
  std::optional<int> weight_bits; // 4 or 8
  std::optional<bool> weight_only;
  std::optional<int64_t> group;
  TensorQuant result; // of its first result
  bool operator==(const NodeQuant &) const = default;
};

struct QuantConfig {
  std::optional<Precision> precision;
  std::map<std::string, NodeQuant, std::less<>> nodes; // by OnnxNode id
  std::map<std::string, TensorQuant, std::less<>> tensors;

  bool AnyFourBits() const; // some entry asks for 4-bit weights
  bool empty() const { return !precision && nodes.empty() && tensors.empty(); }
  // Any range, or scale, that stands instead of samples.
  bool HasRanges() const;
  // What is said of the ONNX nodes that n stands for, key by key the first that says something.
  NodeQuant ForNode(const Node &n) const;
  bool operator==(const QuantConfig &) const = default;
};

// Patterns and names are looked up in `module` (as imported). Errors: E0101; E0508 with file:line:column; E0507 for a
// node or tensor that does not exist, with the nearest that does.
StatusOr<QuantConfig> ReadQuantConfig(const std::string &path, const Module &module);
StatusOr<QuantConfig> ParseQuantConfig(std::string_view text, std::string_view file, const Module &module);

// A file that reads back as `c`.
std::string WriteQuantConfig(const QuantConfig &c);

// Whether `text` fits a pattern of plain characters, * (any run) and ? (any one).
bool MatchesGlob(std::string_view pattern, std::string_view text);

} // namespace npuc
