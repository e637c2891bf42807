#include "compiler/pass/eval_compare.h"

#include <cmath>
#include <map>

#include "compiler/interp/interpreter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/half.h"

namespace npuc {
namespace {

// splitmix64: Sebastiano Vigna's generator, small and the same everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  float Unit() { return static_cast<float>(Next() >> 40) * 0x1p-23f - 1.0f; } // [-1, 1), exact in f32

private:
  uint64_t state_;
};

bool Fill(Tensor &t, bool quantized, Random &random) {
  const int64_t n = t.num_elements();
  const DType type = t.dtype();
  for (int64_t i = 0; i < n; ++i) {
    if (type == DType::F32) {
      t.mutable_data<float>()[i] = random.Unit();
    } else if (type == DType::F64) {
      t.mutable_data<double>()[i] = random.Unit();
    } else if (type == DType::F16) {
      t.mutable_data<uint16_t>()[i] = FloatToHalf(random.Unit());
    } else if (type == DType::BF16) {
      t.mutable_data<uint16_t>()[i] = FloatToBFloat16(random.Unit());
    } else if (type == DType::Bool) {
      t.mutable_bytes()[i] = random.Next() & 1;
    } else if (IsInt(type)) {
      int64_t v = static_cast<int64_t>(random.Next() & 7);
      if (quantized && BitWidth(type) <= 32)
        v = IntMin(type) + static_cast<int64_t>(random.Next() >> (64 - BitWidth(type)));
      v = std::min(v, BitWidth(type) < 8 ? IntMax(type) : v);
      switch (ByteSize(type)) {
      case 1:
        t.mutable_bytes()[i] = static_cast<uint8_t>(v);
        break;
      case 2:
        t.mutable_data<uint16_t>()[i] = static_cast<uint16_t>(v);
        break;
      case 4:
        t.mutable_data<uint32_t>()[i] = static_cast<uint32_t>(v);
        break;
      default:
        t.mutable_data<int64_t>()[i] = v;
        break;
      }
    } else {
      return false;
    }
  }
  return true;
}

bool SameSignature(const Graph &a, const Graph &b) {
  if (a.num_inputs() != b.num_inputs() || a.num_outputs() != b.num_outputs())
    return false;
  for (unsigned i = 0; i < a.num_inputs(); ++i)
    if (a.input(i)->name() != b.input(i)->name() || a.input(i)->type().ToString() != b.input(i)->type().ToString())
      return false;
  return a.output_names() == b.output_names();
}

std::string CompareTensors(const Tensor &a, const Tensor &b, bool quantized, const EvalCompareOptions &options) {
  if (a.dims() != b.dims())
    return fmt::format("has shape {}, had {}", ToString(b.dims()), ToString(a.dims()));
  if (a.dtype() == DType::String || b.dtype() == DType::String || IsComplex(a.dtype()) || IsComplex(b.dtype()))
    return a.SameBits(b) ? "" : "differs";
  // A float in one and an integer in the other is a change of the model's interface, not of a value.
  if (a.dtype() != b.dtype())
    return fmt::format("is {}, was {}", Name(b.dtype()), Name(a.dtype()));
  const int64_t n = a.num_elements();
  double allowed = quantized || ByteSize(a.dtype()) == 1 ? 1 : 0;
  if (a.dtype() == DType::Bool)
    allowed = 0;
  if (IsFloat(a.dtype())) {
    double greatest = 0;
    for (int64_t i = 0; i < n; ++i)
      if (const double x = std::abs(a.AsDouble(i)); std::isfinite(x))
        greatest = std::max(greatest, x);
    allowed = options.atol + options.rtol * greatest;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double x = a.AsDouble(i), y = b.AsDouble(i);
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= allowed;
    if (!same)
      return fmt::format("differs at element {}: {}, was {}", i, y, x);
  }
  return "";
}

std::string CompareValues(const EvalValue &a, const EvalValue &b, bool quantized, const EvalCompareOptions &options) {
  if (a.tensor() && b.tensor())
    return CompareTensors(*a.tensor(), *b.tensor(), quantized, options);
  if (a.sequence() && b.sequence()) {
    if (a.sequence()->size() != b.sequence()->size())
      return fmt::format("has {} elements, had {}", b.sequence()->size(), a.sequence()->size());
    for (size_t i = 0; i < a.sequence()->size(); ++i)
      if (std::string s = CompareValues((*a.sequence())[i], (*b.sequence())[i], quantized, options); !s.empty())
        return fmt::format("in its element {} {}", i, s);
    return "";
  }
  return a.v.index() == b.v.index() ? "" : "is another kind of value";
}

} // namespace

std::optional<std::vector<Tensor>> RandomInputs(const Graph &g, const EvalCompareOptions &options) {
  std::vector<Tensor> out;
  Random random(options.seed);
  for (unsigned i = 0; i < g.num_inputs(); ++i) {
    const Type &type = g.input(i)->type();
    if (!type.is_tensor() || !type.shape().ranked())
      return std::nullopt;
    Dims dims;
    for (const Dim &d : type.shape().dims())
      dims.push_back(d.is_static() ? d.value() : options.free_dim);
    const auto n = CheckedNumElements(dims);
    if (!n || *n > int64_t{1} << 28)
      return std::nullopt;
    if (type.dtype() == DType::String || ByteSize(type.dtype()) == 0)
      return std::nullopt;
    Tensor t = Tensor::Allocate(type.dtype(), dims);
    if (!Fill(t, type.is_quantized(), random))
      return std::nullopt;
    out.push_back(std::move(t));
  }
  return out;
}

Status CompareByEvaluation(const Module &before, const Module &after, const EvalCompareOptions &options) {
  const Graph &a = before.main(), &b = after.main();
  if (!SameSignature(a, b))
    return OkStatus();
  const auto inputs = RandomInputs(a, options);
  if (!inputs)
    return OkStatus();
  EvalOptions eval;
  eval.threads = options.threads;
  auto expected = Interpreter(a, eval).Run(*inputs);
  if (!expected.ok())
    return OkStatus(); // random inputs don't suit every model
  auto actual = Interpreter(b, eval).Run(*inputs);
  if (!actual.ok())
    return absl::InternalError(
        fmt::format("evaluation fails behind the pass: {}", Render(FromStatus(actual.status()))));
  for (unsigned i = 0; i < a.num_outputs(); ++i) {
    const std::string what = CompareValues((*expected)[i], (*actual)[i], a.output(i)->type().is_quantized(), options);
    if (!what.empty())
      return absl::InternalError(fmt::format("output '{}' {}", a.output_names()[i], what));
  }
  return OkStatus();
}

} // namespace npuc
