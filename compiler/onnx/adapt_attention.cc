// Adapters of com.microsoft's transformer operators, written out in ONNX: products, a softmax and moves, which the NPU
// knows.
//
//   Attention(x, weights, bias, mask_index, past, attention_bias): one product for Q, K and V, then as below
//   MultiHeadAttention(query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value), packed or not
//   EmbedLayerNormalization: sum of two or three embeddings, normalised
//
//   scores = (scale Q) K^T + mask + attention_bias -> softmax -> V. What a mask of 0 forbids gets mask_filter_value
//   added (-10000 by default), what lies in the future of a causal model the least number.
#include <cmath>
#include <limits>

#include "compiler/onnx/adapters.h"

namespace npuc::onnx_import {
namespace {

AttributeList Attr(std::string_view name, Attribute value) {
  AttributeList a;
  a.Set(name, std::move(value));
  return a;
}

// Elements [from, to) along `axis`.
StatusOr<Value *> Part(AdaptedNode &n, Value *x, int64_t axis, int64_t from, int64_t to) {
  return n.Add("Slice", {x, n.Ints({from}), n.Ints({to}), n.Ints({axis})});
}
StatusOr<Value *> Element(AdaptedNode &n, Value *x, int64_t axis, int64_t i) {
  return n.Add("Gather", {x, n.Constant(Tensor::ScalarI64(i))}, Attr("axis", axis));
}

// [batch, length, heads * size] -> [batch, heads, length, size]
StatusOr<Value *> SplitHeads(AdaptedNode &n, Value *x, int64_t heads) {
  NPUC_ASSIGN_OR_RETURN(Value * apart, n.Add("Reshape", {x, n.Ints({0, 0, heads, -1})}));
  return n.Add("Transpose", {apart}, Attr("perm", std::vector<int64_t>{0, 2, 1, 3}));
}

// What a padding mask adds to the scores [batch, heads, rows, columns]: 0 or `filter`. nullptr: no mask.
StatusOr<Value *> MaskBias(AdaptedNode &n, Value *mask, Value *keys, float filter) {
  if (!mask)
    return static_cast<Value *>(nullptr);
  if (!mask->type().is_tensor() || !mask->type().shape().ranked())
    return Error("E0402", "the mask's rank is not known", "fix the model's input shapes");
  const int rank = mask->type().shape().rank();
  if (rank == 1) {
    // Lengths. Longer lists hold starts, or offsets of packed sequences.
    const Dim have = mask->type().shape()[0], batch = keys->type().is_tensor() && keys->type().shape().ranked()
                                                          ? keys->type().shape()[0]
                                                          : Dim::Unknown();
    if (have.is_static() && batch.is_static() && !(have == batch))
      return Error("E0402", fmt::format("a mask of {} numbers for a batch of {}", have.value(), batch.value()),
                   "export with a mask [batch, length]");
    NPUC_ASSIGN_OR_RETURN(Value * shape, n.Add("Shape", {keys}));
    NPUC_ASSIGN_OR_RETURN(Value * length, Element(n, shape, 0, 2));
    NPUC_ASSIGN_OR_RETURN(Value * places,
                          n.Add("Range", {n.Constant(Tensor::ScalarI64(0)), length, n.Constant(Tensor::ScalarI64(1))}));
    NPUC_ASSIGN_OR_RETURN(Value * ends, n.Add("Cast", {mask}, Attr("to", static_cast<int64_t>(DType::I64))));
    NPUC_ASSIGN_OR_RETURN(ends, n.Add("Unsqueeze", {ends, n.Ints({1})}));
    NPUC_ASSIGN_OR_RETURN(mask, n.Add("Less", {places, ends}));
  } else if (rank > 3) {
    return Error("E0402", fmt::format("a mask of rank {}", rank), "export with a mask [batch, length]");
  }
  NPUC_ASSIGN_OR_RETURN(Value * seen, n.Add("Cast", {mask}, Attr("to", static_cast<int64_t>(n.InputDType(0)))));
  NPUC_ASSIGN_OR_RETURN(Value * hidden, n.Add("Sub", {n.ScalarLikeInput(1), seen}));
  NPUC_ASSIGN_OR_RETURN(Value * bias, n.Add("Mul", {hidden, n.ScalarLikeInput(filter)}));
  return n.Add("Unsqueeze", {bias, rank == 3 ? n.Ints({1}) : n.Ints({1, 2})});
}

// Row r of [rows, columns] sees the columns up to columns - rows + r.
StatusOr<Value *> HideFuture(AdaptedNode &n, Value *scores) {
  NPUC_ASSIGN_OR_RETURN(Value * shape, n.Add("Shape", {scores}, Attr("start", int64_t{2})));
  const float one = 1;
  NPUC_ASSIGN_OR_RETURN(Value * ones,
                        n.Add("ConstantOfShape", {shape}, Attr("value", Tensor::Of<float>(DType::F32, {1}, one))));
  NPUC_ASSIGN_OR_RETURN(Value * rows, Element(n, shape, 0, 0));
  NPUC_ASSIGN_OR_RETURN(Value * columns, Element(n, shape, 0, 1));
  NPUC_ASSIGN_OR_RETURN(Value * diagonal, n.Add("Sub", {columns, rows}));
  NPUC_ASSIGN_OR_RETURN(Value * lower, n.Add("Trilu", {ones, diagonal}, Attr("upper", int64_t{0})));
  NPUC_ASSIGN_OR_RETURN(Value * seen, n.Add("Cast", {lower}, Attr("to", static_cast<int64_t>(DType::Bool))));
  const double least = n.InputDType(0) == DType::F16 ? -65504.0 : std::numeric_limits<float>::lowest();
  return n.Add("Where", {seen, scores, n.ScalarLikeInput(least)});
}

struct Product {
  Value *q, *k, *v;   // [batch, heads, length, size]
  Value *mask, *bias; // to add to the scores; may be null
  double scale;
  bool causal;
};
// [batch, length, heads * size]
StatusOr<Value *> Attend(AdaptedNode &n, const Product &p) {
  NPUC_ASSIGN_OR_RETURN(Value * q, n.Add("Mul", {p.q, n.ScalarLikeInput(p.scale)}));
  NPUC_ASSIGN_OR_RETURN(Value * k, n.Add("Transpose", {p.k}, Attr("perm", std::vector<int64_t>{0, 1, 3, 2})));
  NPUC_ASSIGN_OR_RETURN(Value * scores, n.Add("MatMul", {q, k}));
  for (Value *term : {p.mask, p.bias})
    if (term) {
      NPUC_ASSIGN_OR_RETURN(scores, n.Add("Add", {scores, term}));
    }
  if (p.causal) {
    NPUC_ASSIGN_OR_RETURN(scores, HideFuture(n, scores));
  }
  NPUC_ASSIGN_OR_RETURN(Value * weights, n.Add("Softmax", {scores}, Attr("axis", int64_t{-1})));
  NPUC_ASSIGN_OR_RETURN(Value * mixed, n.Add("MatMul", {weights, p.v}));
  NPUC_ASSIGN_OR_RETURN(mixed, n.Add("Transpose", {mixed}, Attr("perm", std::vector<int64_t>{0, 2, 1, 3})));
  return n.Add("Reshape", {mixed, n.Ints({0, 0, -1})});
}

StatusOr<int64_t> NumHeads(AdaptedNode &n) {
  const int64_t heads = n.attrs.Int("num_heads", 0);
  if (heads < 1)
    return Error("E0203", fmt::format("num_heads is {}", heads));
  return heads;
}
// 1 / sqrt(size of a head), unless an attribute says otherwise.
StatusOr<double> Scale(AdaptedNode &n, Value *q) {
  if (const float s = n.attrs.Float("scale", 0); s != 0)
    return static_cast<double>(s);
  if (!q->type().is_tensor() || q->type().shape().rank() != 4 || !q->type().shape()[3].is_static())
    return Error("E0402", "the size of an attention head is not known", "fix the model's input shapes");
  return 1.0 / std::sqrt(static_cast<double>(q->type().shape()[3].value()));
}
Status Refuse(AdaptedNode &n, std::initializer_list<std::string_view> flags) {
  for (std::string_view flag : flags)
    if (n.attrs.Int(flag, 0) != 0)
      return Error("E0402", fmt::format("{} with {}", n.op, flag), "export the model without it");
  return OkStatus();
}

Status Attention(AdaptedNode &n) {
  NPUC_RETURN_IF_ERROR(Refuse(n, {"do_rotary", "past_present_share_buffer"}));
  NPUC_ASSIGN_OR_RETURN(const int64_t heads, NumHeads(n));
  const auto w = n.StaticDims(1);
  if (!n.input(0) || !w || w->size() != 2)
    return Error("E0402", "Attention without static weights [input, 3 x hidden]");
  std::vector<int64_t> sizes = n.attrs.Ints("qkv_hidden_sizes").vec();
  if (sizes.empty())
    sizes.assign(3, (*w)[1] / 3);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != (*w)[1] || sizes[0] != sizes[1] || sizes[0] % heads ||
      sizes[2] % heads)
    return Error("E0203",
                 fmt::format("weights {} for hidden sizes {} and {} heads", ToString(*w), ToString(sizes), heads));
  NPUC_ASSIGN_OR_RETURN(Value * all, n.Add("MatMul", {n.input(0), n.input(1)}));
  if (n.input(2)) {
    NPUC_ASSIGN_OR_RETURN(all, n.Add("Add", {all, n.input(2)}));
  }
  Value *part[3];
  for (int64_t i = 0, from = 0; i < 3; from += sizes[i++]) {
    NPUC_ASSIGN_OR_RETURN(Value * one, Part(n, all, 2, from, from + sizes[i]));
    NPUC_ASSIGN_OR_RETURN(part[i], SplitHeads(n, one, heads));
  }
  if (n.input(4))
    for (int i = 0; i < 2; ++i) {
      NPUC_ASSIGN_OR_RETURN(Value * past, Element(n, n.input(4), 0, i));
      NPUC_ASSIGN_OR_RETURN(part[1 + i], n.Add("Concat", {past, part[1 + i]}, Attr("axis", int64_t{2})));
    }
  Product p{part[0], part[1], part[2], nullptr, n.input(5), 0, n.attrs.Int("unidirectional", 0) != 0};
  NPUC_ASSIGN_OR_RETURN(p.mask, MaskBias(n, n.input(3), p.k, n.attrs.Float("mask_filter_value", -10000.0f)));
  NPUC_ASSIGN_OR_RETURN(p.scale, Scale(n, p.q));
  NPUC_ASSIGN_OR_RETURN(Value * y, Attend(n, p));
  n.results = {y};
  if (n.num_outputs > 1) {
    NPUC_ASSIGN_OR_RETURN(Value * k, n.Add("Unsqueeze", {p.k, n.Ints({0})}));
    NPUC_ASSIGN_OR_RETURN(Value * v, n.Add("Unsqueeze", {p.v, n.Ints({0})}));
    NPUC_ASSIGN_OR_RETURN(Value * present, n.Add("Concat", {k, v}, Attr("axis", int64_t{0})));
    n.results.push_back(present);
  }
  return OkStatus();
}

Status MultiHeadAttention(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(const int64_t heads, NumHeads(n));
  if (n.input(8) || n.input(9))
    return Error("E0402", "MultiHeadAttention with a shared cache", "export the model without it");
  const auto rank = n.Rank(0);
  if (!rank)
    return Error("E0402", "the query's rank is not known", "fix the model's input shapes");
  // Packed ones lie [batch, length, heads, 2 or 3, size]. A key or value of rank 4 is [batch, heads, length, size].
  Value *part[3] = {n.input(0), n.input(1), n.input(2)};
  auto unpack = [&](Value *packed, int64_t i) -> StatusOr<Value *> {
    NPUC_ASSIGN_OR_RETURN(Value * one, Element(n, packed, 3, i));
    return n.Add("Reshape", {one, n.Ints({0, 0, -1})});
  };
  if (*rank == 5) {
    for (int i = 0; i < 3; ++i) {
      NPUC_ASSIGN_OR_RETURN(part[i], unpack(n.input(0), i));
    }
  } else if (n.Rank(1).value_or(0) == 5) {
    for (int i = 0; i < 2; ++i) {
      NPUC_ASSIGN_OR_RETURN(part[1 + i], unpack(n.input(1), i));
    }
  }
  if (!part[1] || !part[2])
    return Error("E0203", "MultiHeadAttention needs a key and a value");
  if (n.input(3)) {
    const auto size = [](Value *v) -> int64_t {
      const Type &t = v->type();
      return t.is_tensor() && t.shape().rank() == 3 && t.shape()[2].is_static() ? t.shape()[2].value() : -1;
    };
    int64_t from = 0;
    for (Value *&x : part) {
      const int64_t to = from + size(x);
      if (to <= from)
        return Error("E0402", "MultiHeadAttention with a bias on operands of unknown size",
                     "fix the model's input shapes");
      NPUC_ASSIGN_OR_RETURN(Value * bias, Part(n, n.input(3), 0, from, to));
      NPUC_ASSIGN_OR_RETURN(x, n.Add("Add", {x, bias}));
      from = to;
    }
  }
  for (Value *&x : part)
    if (!x->type().is_tensor() || x->type().shape().rank() != 4) {
      NPUC_ASSIGN_OR_RETURN(x, SplitHeads(n, x, heads));
    }
  for (unsigned i = 0; i < 2; ++i)
    if (n.input(6 + i)) {
      NPUC_ASSIGN_OR_RETURN(part[1 + i], n.Add("Concat", {n.input(6 + i), part[1 + i]}, Attr("axis", int64_t{2})));
    }
  Product p{part[0], part[1], part[2], nullptr, n.input(5), 0, n.attrs.Int("unidirectional", 0) != 0};
  NPUC_ASSIGN_OR_RETURN(p.mask, MaskBias(n, n.input(4), p.k, n.attrs.Float("mask_filter_value", -10000.0f)));
  NPUC_ASSIGN_OR_RETURN(p.scale, Scale(n, p.q));
  NPUC_ASSIGN_OR_RETURN(Value * y, Attend(n, p));
  n.results = {y, p.k, p.v};
  return OkStatus();
}

// Inputs: ids, segment ids, word, position and segment embeddings, gamma, beta, mask, position ids.
Status EmbedLayerNorm(AdaptedNode &n) {
  if (!n.input(0) || !n.input(2) || !n.input(3) || !n.input(5) || !n.input(6))
    return Error("E0203", "EmbedLayerNormalization needs ids, word and position embeddings, gamma and beta");
  Value *places = n.input(8);
  if (!places) {
    NPUC_ASSIGN_OR_RETURN(Value * shape, n.Add("Shape", {n.input(0)}));
    NPUC_ASSIGN_OR_RETURN(Value * length, Element(n, shape, 0, 1));
    NPUC_ASSIGN_OR_RETURN(places,
                          n.Add("Range", {n.Constant(Tensor::ScalarI64(0)), length, n.Constant(Tensor::ScalarI64(1))}));
  }
  NPUC_ASSIGN_OR_RETURN(Value * words, n.Add("Gather", {n.input(2), n.input(0)}));
  NPUC_ASSIGN_OR_RETURN(Value * positions, n.Add("Gather", {n.input(3), places}));
  NPUC_ASSIGN_OR_RETURN(Value * sum, n.Add("Add", {words, positions}));
  if (n.input(1) && n.input(4)) {
    NPUC_ASSIGN_OR_RETURN(Value * segments, n.Add("Gather", {n.input(4), n.input(1)}));
    NPUC_ASSIGN_OR_RETURN(sum, n.Add("Add", {sum, segments}));
  }
  AttributeList attrs = Attr("axis", int64_t{-1});
  attrs.Set("epsilon", n.attrs.Float("epsilon", 1e-12f));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("LayerNormalization", {sum, n.input(5), n.input(6)}, attrs));
  n.results = {y, nullptr, sum};
  if (n.num_outputs > 1 && n.output_used[1]) {
    // The number of tokens that the mask lets through; 0 without a mask.
    Value *mask = n.input(7);
    if (!mask) {
      NPUC_ASSIGN_OR_RETURN(mask, n.Add("Sub", {n.input(0), n.input(0)}));
    }
    AttributeList keep = Attr("keepdims", int64_t{0});
    NPUC_ASSIGN_OR_RETURN(Value * count, n.Add("ReduceSum", {mask, n.Ints({1})}, keep));
    NPUC_ASSIGN_OR_RETURN(n.results[1], n.Add("Cast", {count}, Attr("to", static_cast<int64_t>(DType::I32))));
  }
  return OkStatus();
}

constexpr AdapterRow kRows[] = {
    {"com.microsoft", "Attention", kAlways, Attention},
    {"com.microsoft", "MultiHeadAttention", kAlways, MultiHeadAttention},
    {"com.microsoft", "EmbedLayerNormalization", kAlways, EmbedLayerNorm},
};

} // namespace

llvm::ArrayRef<AdapterRow> AttentionAdapters() {
  return kRows;
}

} // namespace npuc::onnx_import
