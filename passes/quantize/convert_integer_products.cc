// Products of integers that are scaled to floats afterwards, and the quantisation at run time that comes before them,
// become products of typed integers.
//
//   q, s, z = DynamicQuantizeLinear(x)
//   i = ConvInteger(q, const w, z, const wz)          (MatMulInteger likewise)
//   y = Mul(Cast(i), Mul(s, const ws))                (also MatMulIntegerToFloat, DynamicQuantizeMatMul)
//     ->
//   d = the same s, out of ReduceMin, ReduceMax and arithmetic on one element; z likewise
//   %c: i16{s=1,z=0} = Quantize(Min(x / d, 255 - z))
//   y = Mul(Conv(Dequantize(%c), Dequantize(w: i8{ws, wz})), d)
//
//   y = Mul(Cast(MatMulInteger(q, const w, const z, const wz)), const s)   ->
//   y = MatMul(Dequantize(q: u8{1, z}), Dequantize(w: i8{s, wz}))
//
// The codes less their zero point (-255 to 255) need nine bits, and the zero point is only known at run time: 16-bit
// inputs hold both, and their sums are exact. convert-qdq joins the rest to one product with an output stage. What
// rounds otherwise than ONNX says: d is kept in f16 on the NPU, as x is. A range of nothing but 0 has scale 1, as ONNX
// has it.
//
// Left alone: on targets without f16; shapes that are not static; scales or zero points of weights that are not
// constants; integers that are read as such; operands of more than 8 bits. The host computes these as ONNX says.
//
// Cost: one sweep.
#include <cmath>
#include <map>

#include "passes/quantize/quant_rewrite.h"

namespace npuc {
namespace {

constexpr std::string_view kMs = "com.microsoft";
// Elements that one reduction takes in at most.
constexpr int64_t kReduced = 16384;

bool IsByte(const Value *v) {
  return v && v->type().is_tensor() && !v->type().is_quantized() &&
         (v->type().dtype() == DType::I8 || v->type().dtype() == DType::U8);
}

// i scaled: y = i * (dynamic * fixed) + bias, each but i may be absent.
struct Product {
  Node *node = nullptr, *last = nullptr;
  Value *a = nullptr, *b = nullptr, *za = nullptr, *zb = nullptr;
  Value *dynamic = nullptr, *fixed = nullptr, *bias = nullptr;
  bool conv = false;
};

class Converter {
public:
  explicit Converter(PassContext &ctx) : ctx_(ctx) {}

  bool Run(Graph &g) {
    for (Node &n : g.nodes_early_inc()) {
      for (unsigned i = 0; i < n.num_bodies(); ++i)
        Run(*n.body(i));
      if (const auto p = Match(n))
        Convert(*p);
    }
    return changed_;
  }

private:
  static std::optional<Product> Match(Node &n) {
    auto op = [&](unsigned i) { return n.operand(i); };
    Product p;
    if (n.Is("DynamicQuantizeMatMul", kMs)) {
      p = {&n, &n, op(0), op(1), nullptr, op(3), nullptr, op(2), op(4), false};
      return p;
    }
    if (n.Is("MatMulIntegerToFloat", kMs)) {
      if (op(2)->constant()) // two constant scales: rare
        return std::nullopt;
      p = {&n, &n, op(0), op(1), op(4), op(5), op(2), op(3), op(6), false};
      return p;
    }
    // The last node of the chain is where everything stands before.
    if (!n.Is("Mul") || n.result()->type().dtype() != DType::F32)
      return std::nullopt;
    for (unsigned i = 0; i < 2; ++i) {
      Node *const cast = DefinedBy(op(i), "Cast");
      if (!cast || !cast->result()->has_one_use())
        continue;
      Node *const made = cast->operand(0)->def();
      if (!made || !IsOneOf(*made, {"ConvInteger", "MatMulInteger"}) || !made->result()->has_one_use())
        continue;
      p = {made,    &n,      made->operand(0), made->operand(1),       made->operand(2), made->operand(3),
           nullptr, nullptr, nullptr,          made->Is("ConvInteger")};
      Value *const scale = op(1 - i);
      if (scale->constant()) {
        p.fixed = scale;
        return p;
      }
      const Node *m = DefinedBy(scale, "Mul");
      for (unsigned k = 0; m && k < 2; ++k)
        if (m->operand(k)->constant()) {
          p.fixed = m->operand(k);
          p.dynamic = m->operand(1 - k);
        }
      if (!m)
        p.dynamic = scale;
      if (!p.dynamic)
        return std::nullopt;
      return p;
    }
    return std::nullopt;
  }

  // One value, or one a slice of `axis` where it lies along that axis of the product's result.
  static bool Along(const Value *v, int64_t channels, int axis_from_end, bool *several) {
    const Tensor *t = v->constant();
    *several = false;
    if (!t || t->num_elements() < 1)
      return false;
    if (t->num_elements() == 1)
      return true;
    *several = true;
    return t->num_elements() == channels && t->rank() >= axis_from_end &&
           t->dims()[t->rank() - axis_from_end] == channels;
  }

  // Scales and zero points of the weights.
  static QuantRef WeightQuant(const Product &p) {
    const Type &w = p.b->type();
    const int rank = w.shape().rank(), spatial = p.conv ? rank - 2 : 0;
    const int axis = p.conv ? 0 : rank - 1;
    const int64_t channels = StaticDims(p.b)[axis];
    bool many_scales = false, many_zeros = false;
    if (p.fixed && !Along(p.fixed, channels, spatial + 1, &many_scales))
      return nullptr;
    // Zero points are a scalar or a list of the channels.
    if (p.zb && !Along(p.zb, channels, 1, &many_zeros))
      return nullptr;
    QuantParams q;
    const int64_t n = many_scales || many_zeros ? channels : 1;
    q.axis = n > 1 ? axis : -1;
    for (int64_t i = 0; i < n; ++i) {
      const float s = p.fixed ? static_cast<float>(p.fixed->constant()->AsDouble(many_scales ? i : 0)) : 1.0f;
      if (!(s > 0) || !std::isfinite(s))
        return nullptr;
      q.scales.push_back(s);
      q.zero_points.push_back(p.zb ? static_cast<int32_t>(p.zb->constant()->AsInt(many_zeros ? i : 0)) : 0);
    }
    return std::make_shared<const QuantParams>(std::move(q));
  }

  void Convert(const Product &p) {
    const bool own = p.node->Is("DynamicQuantizeMatMul", kMs);
    Node *const dynamic = own ? nullptr : p.dynamic ? DefinedBy(p.dynamic, "DynamicQuantizeLinear") : nullptr;
    if (!HasStaticShape(p.a) || !HasStaticShape(p.b) || !HasStaticShape(p.last->result()) || !p.b->constant() ||
        !IsByte(p.b) || p.b->type().shape().rank() < 2 || p.a->type().shape().rank() < 2)
      return;
    if (p.last->result()->type().dtype() != DType::F32)
      return;
    // More dims of A than of the result, say, do not occur: broadcasting by the scale does.
    if (p.last != p.node && !(p.last->result()->type().shape() == p.node->result()->type().shape()))
      return;
    QuantRef qa;
    if (own) {
      if (p.a->type().dtype() != DType::F32)
        return;
    } else if (p.dynamic) {
      if (!dynamic || p.dynamic != dynamic->result(1) || p.a != dynamic->result(0) || p.za != dynamic->result(2) ||
          dynamic->operand(0)->type().dtype() != DType::F32)
        return;
    } else {
      if (!IsByte(p.a) && !TypedSource(p.a))
        return;
      const Tensor *z = p.za ? p.za->constant() : nullptr;
      if ((p.za && !z) || (z && z->num_elements() != 1))
        return;
      qa = PerTensorQuant(1.0f, z ? static_cast<int32_t>(z->AsInt(0)) : 0);
    }
    const QuantRef qw = WeightQuant(p);
    if (!qw)
      return;

    changed_ = true;
    Rewriter rw(p.last);
    Value *scale = nullptr, *codes;
    if (qa) {
      codes = rewriter_.Typed(p.a, qa, p.last);
    } else {
      const Quantised &q = QuantiseAtRun(own ? p.a : dynamic->operand(0), own ? p.node : dynamic);
      codes = q.codes;
      scale = q.scale;
    }
    Type fa = p.a->type(), fb = p.b->type();
    fa.set_dtype(DType::F32);
    fb.set_dtype(DType::F32);
    Value *const a = rw.Create("Dequantize", {codes}, {}, {fa}, {}, "npuc")->result();
    Value *const w = rw.Create("Dequantize", {rewriter_.Typed(p.b, qw, p.last)}, {}, {fb}, {}, "npuc")->result();
    const Type type = p.last->result()->type();
    Origin origin = p.node->origin();
    if (p.last != p.node)
      for (const Node *cast : {p.last->operand(0)->def(), p.last->operand(1)->def()})
        if (cast && cast->Is("Cast") && cast->operand(0)->def() == p.node)
          origin = MergeOrigins(origin, cast->origin());
    Value *y;
    if (p.conv)
      y = rw.Create("Conv", {a, w}, origin, {type}, p.node->attrs())->result();
    else
      y = rw.Create("MatMul", {a, w}, origin, {type})->result();
    if (scale)
      y = rw.Create("Mul", {y, ScaleFor(rw, scale, type.shape().rank())}, p.last->origin(), {type})->result();
    if (p.bias)
      y = rw.Create("Add", {y, p.bias}, p.last->origin(), {type})->result();
    if (!scale && !p.bias)
      y->def()->set_origin(MergeOrigins(y->def()->origin(), p.last->origin()));
    rw.ReplaceNode(p.last, {y});
    ctx_.Count("fuse: convert-integer-products");
  }

  // One element in as many dims as the product has.
  static Value *ScaleFor(Rewriter &rw, Value *scale, int rank) {
    if (scale->type().shape().rank() == rank)
      return scale;
    Type t = scale->type();
    const Dims ones(rank, 1);
    t.set_shape(Shape::Of(ones));
    return rw.Create("Reshape", {scale, rw.Constant(Tensor::OfI64(ones))}, {}, {t})->result();
  }

  struct Quantised {
    Value *codes, *scale;
  };

  // What DynamicQuantizeLinear computes, with codes less their zero point.
  const Quantised &QuantiseAtRun(Value *x, Node *by) {
    auto [it, fresh] = quantised_.try_emplace(x);
    if (!fresh)
      return it->second;
    // Behind x, so that all its readers may use it.
    Rewriter rw(x->def() ? &*std::next(x->def()->getIterator()) : &*x->graph()->nodes().begin());
    const Origin &origin = by->origin();
    const Type type = x->type();
    Type one = type;
    one.set_shape(Shape::Of(Dims(type.shape().rank(), 1)));
    auto number = [&](float v) { return rw.Constant(Tensor::ScalarF32(v)); };
    auto make = [&](std::string_view op, std::initializer_list<Value *> operands, const Type &t) {
      return rw.Create(op, operands, origin, {t})->result();
    };
    Value *const lo = make("Min", {Reduced(rw, "ReduceMin", x, origin), number(0)}, one);
    Value *const hi = make("Max", {Reduced(rw, "ReduceMax", x, origin), number(0)}, one);
    Value *const width = make("Div", {make("Sub", {hi, lo}, one), number(255)}, one);
    Type truth = one;
    truth.set_dtype(DType::Bool);
    Value *const none = make("Equal", {width, number(0)}, truth);
    Value *const d = make("Where", {none, number(1), width}, one);
    Value *const zero = make("Round", {make("Div", {make("Neg", {lo}, one), d}, one)}, one);
    Value *const top = make("Sub", {number(255), zero}, one);
    Value *const steps = make("Min", {make("Div", {x, d}, type), top}, type);
    Type typed = type;
    typed.set_dtype(DType::I16);
    typed.set_quant(PerTensorQuant(1.0f, 0));
    Value *const codes = rw.Create("Quantize", {steps}, origin, {typed}, {}, "npuc")->result();
    return it->second = {codes, d};
  }

  // All axes, the last ones first, in sets that fit on chip.
  static Value *Reduced(Rewriter &rw, std::string_view op, Value *x, const Origin &origin) {
    Dims dims = StaticDims(x);
    for (int i = static_cast<int>(dims.size()); i > 0;) {
      std::vector<int64_t> axes;
      for (int64_t n = 1; i > 0 && (axes.empty() || n * dims[i - 1] <= kReduced); --i) {
        n *= dims[i - 1];
        dims[i - 1] = 1;
        axes.insert(axes.begin(), i - 1);
      }
      AttributeList keep;
      keep.Set("keepdims", int64_t{1});
      Type t = x->type();
      t.set_shape(Shape::Of(dims));
      x = rw.Create(op, {x, rw.Constant(Tensor::OfI64(axes))}, origin, {t}, std::move(keep))->result();
    }
    return x;
  }

  PassContext &ctx_;
  QuantRewriter rewriter_;
  std::map<Value *, Quantised> quantised_; // by x; never walked
  bool changed_ = false;
};

} // namespace

StatusOr<bool> ConvertIntegerProducts(Module &m, PassContext &ctx) {
  if (!ctx.npu || !ctx.target.HasFloat() || !ctx.target.Supports(DType::I16))
    return false;
  Converter converter(ctx);
  const bool changed = converter.Run(m.main());
  if (changed)
    EraseDeadNodes(m.main());
  return changed;
}

} // namespace npuc
