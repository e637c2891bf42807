// Static tensors between row-major logical elements and their layout in memory, and views as tensors.
#include <cstring>

#include "compiler/support/diagnostic.h"
#include "runtime_stub/rows.h"
#include "runtime_stub/session.h"

namespace npuc::runtime {
namespace {

// Dense view of a static tensor: RowMajor: trailing axes on H, W, C, the rest on N; NHWC and NC1HWC2: axes as named.
isa::View DenseView(const Type &type, int64_t c2) {
  const Dims dims = type.shape().static_dims();
  const int rank = static_cast<int>(dims.size());
  std::array<int64_t, 4> d{1, 1, 1, 1};
  isa::View v;
  v.dtype = type.dtype();
  if (type.layout() == Layout::RowMajor) {
    for (int i = 0; i < rank; ++i)
      d[std::max(0, 4 - rank + i)] *= dims[i];
  } else {
    d = {dims[0], rank == 4 ? dims[2] : 1, dims[rank - 1], dims[1]};
  }
  const int64_t e = ByteSize(type.dtype());
  v.n = d[0], v.h = d[1], v.w = d[2], v.c = d[3];
  v.c_block = type.layout() == Layout::NC1HWC2 ? c2 : std::max<int64_t>(1, d[3]);
  const int64_t blocks = (d[3] + v.c_block - 1) / v.c_block;
  v.stride_w = v.c_block * e;
  v.stride_h = d[2] * v.stride_w;
  v.stride_c1 = d[1] * v.stride_h;
  v.stride_n = blocks * v.stride_c1;
  v.tail = isa::Tail::Fill;
  v.zero = type.is_quantized() && type.quant()->per_tensor() ? type.quant()->zero_point() : 0;
  return v;
}

// fn(byte of the view's element, index of the logical element), for all elements.
template <class F> void ForEachElement(const isa::View &v, Layout layout, F fn) {
  int64_t at = 0;
  if (layout == Layout::RowMajor) {
    for (int64_t n = 0; n < v.n; ++n)
      for (int64_t h = 0; h < v.h; ++h)
        for (int64_t w = 0; w < v.w; ++w)
          for (int64_t c = 0; c < v.c; ++c)
            fn(v.ElementOffset(n, h, w, c), at++);
  } else {
    for (int64_t n = 0; n < v.n; ++n)
      for (int64_t c = 0; c < v.c; ++c)
        for (int64_t h = 0; h < v.h; ++h)
          for (int64_t w = 0; w < v.w; ++w)
            fn(v.ElementOffset(n, h, w, c), at++);
  }
}

} // namespace

int64_t PackedBytes(const Type &type, int64_t c2) {
  const isa::View v = DenseView(type, c2);
  return v.n * v.stride_n;
}

void PackTensor(const Tensor &t, const Type &type, int64_t c2, uint8_t *out) {
  const Tensor plain = t.Expand();
  const isa::View v = DenseView(type, c2);
  const int64_t e = v.elem_bytes();
  if (type.layout() == Layout::RowMajor) {
    if (v.elements())
      std::memcpy(out, plain.bytes(), v.elements() * e);
    return;
  }
  ForEachElement(v, type.layout(),
                 [&](int64_t offset, int64_t i) { std::memcpy(out + offset, plain.bytes() + i * e, e); });
  Memory m;
  m.arena = {out, v.n * v.stride_n};
  isa::View to = v;
  to.address.region = isa::Region::Arena;
  FillTail(m, to);
}

Tensor UnpackTensor(const uint8_t *data, const Type &type, int64_t c2) {
  const isa::View v = DenseView(type, c2);
  Tensor t = Tensor::Allocate(type.dtype(), type.shape().static_dims());
  const int64_t e = v.elem_bytes();
  if (type.layout() == Layout::RowMajor) {
    if (v.elements())
      std::memcpy(t.mutable_bytes(), data, v.elements() * e);
  } else {
    ForEachElement(v, type.layout(),
                   [&](int64_t offset, int64_t i) { std::memcpy(t.mutable_bytes() + i * e, data + offset, e); });
  }
  return t;
}

Tensor TensorOfView(const isa::View &v, const Memory &m, const Type &type) {
  Tensor t = Tensor::Allocate(v.dtype, type.shape().static_dims());
  const uint8_t *base = m.region(v.address.region, v.address.index).data;
  const int64_t e = v.elem_bytes();
  NPUC_CHECK(v.elements() == t.num_elements(), "captured view of {} elements for {}", v.elements(), type.ToString());
  ForEachElement(v, type.layout(),
                 [&](int64_t offset, int64_t i) { std::memcpy(t.mutable_bytes() + i * e, base + offset, e); });
  return t;
}

Status CheckValue(const std::string &what, const Type &wanted, const EvalValue &value) {
  const auto fail = [&](std::string found, std::string help) {
    return Error("E0702", fmt::format("{} is {}, given was {}", what, wanted.ToString(), found), std::move(help));
  };
  switch (wanted.kind()) {
  case Type::Kind::Tensor: {
    const Tensor *t = value.tensor();
    if (!t)
      return fail(value.sequence() ? "a sequence" : value.has_value() ? "a map" : "nothing", "give a tensor");
    const std::string found = std::string(Name(t->dtype())) + ToString(t->dims());
    if (wanted.dtype() != DType::Undefined && t->dtype() != wanted.dtype())
      return fail(found, fmt::format("convert the values to {}", OnnxName(wanted.dtype())));
    if (!wanted.shape().ranked())
      return OkStatus();
    bool fits = wanted.shape().rank() == t->rank();
    for (int i = 0; fits && i < t->rank(); ++i)
      fits = !wanted.shape()[i].is_static() || wanted.shape()[i].value() == t->dims()[i];
    return fits ? OkStatus()
                : fail(found,
                       "reshape or crop the values to the model's shape, or compile the model with --input-shape");
  }
  case Type::Kind::Sequence: {
    if (!value.sequence())
      return fail(value.has_value() ? "a tensor or map" : "nothing", "give a sequence (.pb)");
    for (const EvalValue &e : *value.sequence())
      NPUC_RETURN_IF_ERROR(CheckValue(what, wanted.element(), e));
    return OkStatus();
  }
  case Type::Kind::Optional:
    return value.has_value() ? CheckValue(what, wanted.element(), value) : OkStatus();
  case Type::Kind::Map:
    if (!std::holds_alternative<std::shared_ptr<const EvalMap>>(value.v))
      return fail("not a map", "give a map (.pb)");
    return OkStatus();
  case Type::Kind::None:
    return OkStatus();
  }
  return OkStatus();
}

} // namespace npuc::runtime
