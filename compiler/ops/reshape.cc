// Reshape, Flatten, Squeeze, Unsqueeze: other dims over the same bytes.
//
// Reshape with a -1 and symbolic dims is solved as far as the symbols cancel: [N,C,7,7] -> [N,-1] is [N, 49*C], and
// with one symbol left over, [N,4] -> [-1,4] is [N,4]. Anything else is the unknown dim.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

// What -1 stands for: the operand's dims over the other dims of the result.
Dim Quotient(llvm::ArrayRef<Dim> in, llvm::ArrayRef<Dim> out) {
  int64_t num = 1, den = 1;
  std::vector<Dim> left;
  auto mul = [](int64_t &a, int64_t b) { return !__builtin_mul_overflow(a, b, &a); };
  for (const Dim &d : in) {
    if (d.is_static()) {
      if (!mul(num, d.value()))
        return Dim::Unknown();
    } else {
      left.push_back(d);
    }
  }
  for (const Dim &d : out) {
    if (d.is_static()) {
      if (d.value() == -1)
        continue;
      if (!mul(den, d.value()))
        return Dim::Unknown();
      continue;
    }
    auto it = std::find(left.begin(), left.end(), d); // the unknown dim equals nothing
    if (it == left.end())
      return Dim::Unknown();
    left.erase(it);
  }
  if (den == 0 || num % den)
    return Dim::Unknown();
  if (left.empty())
    return Dim(num / den);
  return left.size() == 1 && num == den ? left[0] : Dim::Unknown();
}

Status InferReshape(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  const DType dtype = DTypeOfOperand(ctx, 0);
  auto dims = ctx.dims(1);
  if (!dims) {
    auto rank = KnownLength(ctx, 1);
    SetTensor(ctx, 0, dtype, rank ? Shape::UnknownDims(static_cast<int>(*rank)) : Shape::Unranked());
    return OkStatus();
  }
  const bool zeros = ctx.attrs().Int("allowzero", 0) != 0;
  int wild = -1;
  for (int i = 0; i < static_cast<int>(dims->size()); ++i) {
    Dim &d = (*dims)[i];
    if (!d.is_static())
      continue;
    if (d.value() == 0 && !zeros) {
      if (in.ranked() && i >= in.rank())
        return ShapeError(fmt::format("dim {} of the wanted shape is 0 (copied), but the operand {} has {} dims", i,
                                      in.ToString(), in.rank()));
      d = in.ranked() ? in[i] : Dim::Unknown();
    } else if (d.value() == -1) {
      if (wild >= 0)
        return ShapeError("the wanted shape has more than one -1");
      wild = i;
    } else if (d.value() < 0) {
      return ShapeError(fmt::format("the wanted shape has the extent {}", d.value()));
    }
  }
  if (in.is_static()) {
    // Every number known: they must agree.
    int64_t product = 1;
    bool known = true;
    for (int i = 0; i < static_cast<int>(dims->size()); ++i)
      if (i != wild)
        known &= (*dims)[i].is_static() && !__builtin_mul_overflow(product, (*dims)[i].value(), &product);
    const int64_t n = in.num_elements();
    if (known && (wild < 0 ? product != n : product == 0 ? n != 0 : n % product != 0))
      return ShapeError(
          fmt::format("{} elements of {} do not fill the wanted shape {}", n, in.ToString(), Shape(*dims).ToString()));
  }
  if (wild >= 0) {
    llvm::SmallVector<Dim, 4> rest(*dims);
    rest.erase(rest.begin() + wild);
    (*dims)[wild] = in.ranked() ? Quotient(in.dims(), rest) : Dim::Unknown();
  } else if (in.ranked()) {
    // One unknown dim among known ones follows likewise.
    int unknown = -1, count = 0;
    for (int i = 0; i < static_cast<int>(dims->size()); ++i)
      if (!(*dims)[i].is_static() && (*dims)[i].symbol() == "?")
        unknown = i, ++count;
    if (count == 1) {
      llvm::SmallVector<Dim, 4> rest(*dims);
      rest.erase(rest.begin() + unknown);
      (*dims)[unknown] = Quotient(in.dims(), rest);
    }
  }
  SetTensor(ctx, 0, dtype, Shape(*dims));
  return OkStatus();
}

Status EvaluateReshape(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  Dims dims(AsInts(ctx.operand(1)));
  const bool zeros = ctx.attrs().Int("allowzero", 0) != 0;
  int64_t product = 1, wild = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !zeros) {
      if (i >= x.dims().size())
        return ShapeError(
            fmt::format("dim {} of the wanted shape {} is 0 (copied) in {}", i, ToString(dims), ToString(x.dims())));
      dims[i] = x.dims()[i];
    }
    if (dims[i] == -1) {
      if (wild >= 0)
        return ShapeError("the wanted shape has more than one -1");
      wild = static_cast<int64_t>(i);
    } else if (dims[i] < 0 || __builtin_mul_overflow(product, dims[i], &product)) {
      return ShapeError(fmt::format("the wanted shape is {}", ToString(dims)));
    }
  }
  const int64_t n = x.num_elements();
  if (wild >= 0)
    dims[wild] = product ? n / product : 0;
  auto total = CheckedNumElements(dims);
  if (!total || *total != n)
    return ShapeError(
        fmt::format("{} elements of {} do not fill the wanted shape {}", n, ToString(x.dims()), ToString(dims)));
  ctx.set_result(0, x.Reshaped(dims));
  return OkStatus();
}

Dim Product(llvm::ArrayRef<Dim> dims) {
  Dim p(1);
  for (const Dim &d : dims) {
    if (d.is_static() && d.value() == 1)
      continue;
    if (p.is_static() && p.value() == 1) {
      p = d;
      continue;
    }
    int64_t v;
    if (!p.is_static() || !d.is_static() || __builtin_mul_overflow(p.value(), d.value(), &v))
      return Dim::Unknown();
    p = Dim(v);
  }
  return p;
}

Status InferFlatten(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  if (!in.ranked()) {
    SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), Shape::UnknownDims(2));
    return OkStatus();
  }
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 1) < 0 ? ctx.attrs().Int("axis", 1) + in.rank()
                                                                               : ctx.attrs().Int("axis", 1),
                                                in.rank(), "axis", true));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0),
            Shape({Product(in.dims().take_front(axis)), Product(in.dims().drop_front(axis))}));
  return OkStatus();
}
Status EvaluateFlatten(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  int64_t at = ctx.attrs().Int("axis", 1);
  if (at < 0)
    at += x.rank();
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(at, x.rank(), "axis", true));
  ctx.set_result(0, x.Reshaped({NumElements(x.dims().take_front(axis)), NumElements(x.dims().drop_front(axis))}));
  return OkStatus();
}

Status InferSqueeze(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  const DType dtype = DTypeOfOperand(ctx, 0);
  auto axes = KnownInts(ctx, 1);
  if (!in.ranked() || (ctx.has_operand(1) && !axes)) {
    auto count = KnownLength(ctx, 1);
    SetTensor(ctx, 0, dtype,
              in.ranked() && count && *count <= in.rank() ? Shape::UnknownDims(in.rank() - static_cast<int>(*count))
                                                          : Shape::Unranked());
    return OkStatus();
  }
  Shape out;
  if (!axes) {
    for (const Dim &d : in.dims()) {
      if (!d.is_static()) {
        SetTensor(ctx, 0, dtype, Shape::Unranked());
        return OkStatus();
      }
      if (d.value() != 1)
        out.push_back(d);
    }
  } else {
    NPUC_ASSIGN_OR_RETURN(auto drop, NormalizeAxes(*axes, in.rank()));
    for (int i = 0; i < in.rank(); ++i) {
      if (!llvm::is_contained(drop, i)) {
        out.push_back(in[i]);
      } else if (in[i].is_static() && in[i].value() != 1) {
        return ShapeError(fmt::format("axis {} of {} cannot be squeezed, its extent is not 1", i, in.ToString()));
      }
    }
  }
  SetTensor(ctx, 0, dtype, out);
  return OkStatus();
}
Status EvaluateSqueeze(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  Dims out;
  if (ctx.has_operand(1)) {
    NPUC_ASSIGN_OR_RETURN(auto drop, NormalizeAxes(AsInts(ctx.operand(1)), x.rank()));
    for (int i = 0; i < x.rank(); ++i) {
      if (!llvm::is_contained(drop, i))
        out.push_back(x.dims()[i]);
      else if (x.dims()[i] != 1)
        return ShapeError(fmt::format("axis {} of {} cannot be squeezed, its extent is not 1", i, ToString(x.dims())));
    }
  } else {
    for (int64_t d : x.dims())
      if (d != 1)
        out.push_back(d);
  }
  ctx.set_result(0, x.Reshaped(out));
  return OkStatus();
}

Status InferUnsqueeze(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  const DType dtype = DTypeOfOperand(ctx, 0);
  auto axes = KnownInts(ctx, 1);
  if (!in.ranked() || !axes) {
    auto count = KnownLength(ctx, 1);
    SetTensor(ctx, 0, dtype,
              in.ranked() && count ? Shape::UnknownDims(in.rank() + static_cast<int>(*count)) : Shape::Unranked());
    return OkStatus();
  }
  const int rank = in.rank() + static_cast<int>(axes->size());
  NPUC_ASSIGN_OR_RETURN(auto add, NormalizeAxes(*axes, rank));
  Shape out;
  for (int i = 0, k = 0; i < rank; ++i)
    out.push_back(llvm::is_contained(add, i) ? Dim(1) : in[k++]);
  SetTensor(ctx, 0, dtype, out);
  return OkStatus();
}
Status EvaluateUnsqueeze(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const auto axes = AsInts(ctx.operand(1));
  const int rank = x.rank() + static_cast<int>(axes.size());
  NPUC_ASSIGN_OR_RETURN(auto add, NormalizeAxes(axes, rank));
  Dims out;
  for (int i = 0, k = 0; i < rank; ++i)
    out.push_back(llvm::is_contained(add, i) ? 1 : x.dims()[k++]);
  ctx.set_result(0, x.Reshaped(out));
  return OkStatus();
}

constexpr uint32_t kViewTraits = kPure | kCopiesElements | kView | kNoFloatWiden;

} // namespace

OpDef ReshapeDef() {
  return {.domain = "",
          .name = "Reshape",
          .since_version = 14,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("allowzero")},
          .traits = kViewTraits,
          .infer = InferReshape,
          .evaluate = EvaluateReshape,
          .doc = "Other dims for the same elements; 0 copies a dim (unless allowzero), one -1 is worked out."};
}

OpDef FlattenDef() {
  return {.domain = "",
          .name = "Flatten",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("axis")},
          .traits = kViewTraits,
          .infer = InferFlatten,
          .evaluate = EvaluateFlatten,
          .doc = "A matrix: the dims before axis by those from axis on."};
}

OpDef SqueezeDef() {
  return {.domain = "",
          .name = "Squeeze",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 2,
          .attrs = {},
          .traits = kViewTraits,
          .infer = InferSqueeze,
          .evaluate = EvaluateSqueeze,
          .doc = "Without the dims of extent 1 at axes (all of them when axes are absent)."};
}

OpDef UnsqueezeDef() {
  return {.domain = "",
          .name = "Unsqueeze",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {},
          .traits = kViewTraits,
          .infer = InferUnsqueeze,
          .evaluate = EvaluateUnsqueeze,
          .doc = "With dims of extent 1 put in at axes of the result."};
}

} // namespace npuc::ops
