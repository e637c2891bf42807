// Cast and CastLike between all element types, strings included. The numeric rules are convert.h's. To string: integers
// in decimal, bool as 1 and 0, floats shortest round-trip ("1.0", "1e-05", "NaN", "INF", "-INF"). From string: decimal
// or scientific notation, NaN, INF in any case; anything else is E0703.
#include <absl/strings/numbers.h>

#include "compiler/ops/convert.h"
#include "compiler/ops/op_helpers.h"

namespace npuc::ops {
namespace {

std::string FloatText(double v, bool single) {
  if (v != v)
    return "NaN";
  if (v > std::numeric_limits<double>::max())
    return "INF";
  if (v < -std::numeric_limits<double>::max())
    return "-INF";
  std::string s = single ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
  if (s.find_first_of(".e") == std::string::npos)
    s += ".0";
  return s;
}

StatusOr<Tensor> ToStrings(const Tensor &t) {
  std::vector<std::string> out(t.num_elements());
  const Tensor x = IsFloat(t.dtype()) && t.dtype() != DType::F64 ? ConvertTensor(t, DType::F32) : t;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (IsFloat(x.dtype()))
      out[i] = FloatText(x.AsDouble(i), x.dtype() == DType::F32);
    else if (x.dtype() == DType::U64)
      out[i] = std::to_string(x.data<uint64_t>()[i]);
    else
      out[i] = std::to_string(x.AsInt(i));
  }
  return Tensor::Strings(t.dims(), std::move(out));
}

StatusOr<Tensor> FromStrings(const Tensor &t, DType to) {
  // Integers keep all 64 bits; everything else goes through double.
  Tensor whole = Tensor::Allocate(to == DType::U64 ? DType::U64 : DType::I64, t.dims());
  Tensor real = Tensor::Allocate(DType::F64, t.dims());
  bool all_whole = IsInt(to);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const absl::string_view s(t.strings()[i]);
    double v = 0;
    if (!absl::SimpleAtod(s, &v))
      return Error("E0703", fmt::format("the string '{}' is not a number", t.strings()[i]),
                   "check the string tensor that is cast");
    real.mutable_data<double>()[i] = v;
    if (all_whole)
      all_whole = to == DType::U64 ? absl::SimpleAtoi(s, &whole.mutable_data<uint64_t>()[i])
                                   : absl::SimpleAtoi(s, &whole.mutable_data<int64_t>()[i]);
  }
  return ConvertTensor(all_whole ? whole : real, to);
}

Status CastTo(EvalContext &ctx, DType to) {
  const Tensor &x = ctx.operand(0);
  if (x.dtype() == to) {
    ctx.set_result(0, x);
    return OkStatus();
  }
  if (to == DType::String) {
    NPUC_ASSIGN_OR_RETURN(Tensor y, ToStrings(x));
    ctx.set_result(0, std::move(y));
    return OkStatus();
  }
  if (x.dtype() == DType::String) {
    if (!IsConvertible(to))
      return UnsupportedDType(to);
    NPUC_ASSIGN_OR_RETURN(Tensor y, FromStrings(x, to));
    ctx.set_result(0, std::move(y));
    return OkStatus();
  }
  if (!IsConvertible(x.dtype()))
    return UnsupportedDType(x.dtype());
  if (!IsConvertible(to))
    return UnsupportedDType(to);
  const std::string_view mode = ctx.attrs().String("round_mode", "up");
  const E8M0Round round = mode == "down" ? E8M0Round::down : mode == "nearest" ? E8M0Round::nearest : E8M0Round::up;
  ctx.set_result(0, ConvertTensor(x, to, ctx.attrs().Int("saturate", 1) != 0, round));
  return OkStatus();
}

StatusOr<DType> Target(const AttributeList &attrs) {
  const int64_t to = attrs.Int("to", 0);
  if (to <= 0 || to >= kNumDTypes)
    return AttrError(
        fmt::format("attribute to is {}; it must be the code of an element type, 1 to {}", to, kNumDTypes - 1));
  return static_cast<DType>(to);
}

Status InferCast(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const DType to, Target(ctx.attrs()));
  SetTensor(ctx, 0, to, ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateCast(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const DType to, Target(ctx.attrs()));
  return CastTo(ctx, to);
}
Status InferCastLike(InferContext &ctx) {
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 1), ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateCastLike(EvalContext &ctx) {
  return CastTo(ctx, ctx.operand(1).dtype());
}

} // namespace

OpDef CastDef() {
  return {.domain = "",
          .name = "Cast",
          .since_version = 24,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("to", true), IntAttr("saturate"), StringAttr("round_mode")},
          .traits = kPure | kElementwise | kNoFloatWiden,
          .infer = InferCast,
          .evaluate = EvaluateCast,
          .doc = "Conversion to another element type."};
}
OpDef CastLikeDef() {
  return {.domain = "",
          .name = "CastLike",
          .since_version = 24,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("saturate"), StringAttr("round_mode")},
          .traits = kPure | kElementwise | kNoFloatWiden,
          .infer = InferCastLike,
          .evaluate = EvaluateCastLike,
          .doc = "Conversion to the second operand's element type."};
}

} // namespace npuc::ops
