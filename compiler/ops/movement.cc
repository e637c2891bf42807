// Materialising strided views and copying elements of any dtype.
//
// Transpose, Slice, Expand, DepthToSpace and the like are one operation: a strided view of the operand written out
// row-major. Dims that lie back to back in both are joined first, then the innermost loop is a memcpy (stride 1), a
// fill (stride 0) or a strided gather by element size. O(elements of the result).
#include "compiler/ops/movement.h"

#include <cstring>

namespace npuc::ops {
namespace {

constexpr int64_t kMaxResultBytes = int64_t{1} << 36;

template <int Size> void Gather(uint8_t *out, const uint8_t *in, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(out + i * Size, in + i * stride * Size, Size);
}

void GatherRun(uint8_t *out, const uint8_t *in, int64_t n, int64_t stride, int size) {
  if (stride == 1) {
    std::memcpy(out, in, n * size);
    return;
  }
  switch (size) {
  case 1:
    return Gather<1>(out, in, n, stride);
  case 2:
    return Gather<2>(out, in, n, stride);
  case 4:
    return Gather<4>(out, in, n, stride);
  case 8:
    return Gather<8>(out, in, n, stride);
  default:
    return Gather<16>(out, in, n, stride);
  }
}

} // namespace

StatusOr<Tensor> AllocateResult(DType dtype, llvm::ArrayRef<int64_t> dims) {
  auto n = CheckedNumElements(dims);
  if (!n || *n > kMaxResultBytes / std::max(ByteSize(dtype), 1))
    return Error("E0703", fmt::format("a result of shape {} does not fit into memory", ToString(dims)));
  return Tensor::Allocate(dtype, dims);
}

bool NextIndex(llvm::SmallVectorImpl<int64_t> &index, llvm::ArrayRef<int64_t> dims) {
  for (size_t k = dims.size(); k-- > 0;) {
    if (++index[k] < dims[k])
      return true;
    index[k] = 0;
  }
  return false;
}

StatusOr<Tensor> Materialize(const Tensor &src, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides,
                             int64_t base) {
  // Joined dims.
  llvm::SmallVector<int64_t, 6> d, s;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1)
      continue;
    if (!d.empty() && s.back() == strides[i] * dims[i]) {
      d.back() *= dims[i];
      s.back() = strides[i];
    } else {
      d.push_back(dims[i]);
      s.push_back(strides[i]);
    }
  }
  if (d.empty()) {
    d.push_back(1);
    s.push_back(1);
  }
  const int64_t run = d.pop_back_val(), step = s.pop_back_val();
  NPUC_ASSIGN_OR_RETURN(Tensor out, AllocateResult(src.dtype(), dims));
  const int64_t n = out.num_elements();
  if (n == 0)
    return out;
  llvm::SmallVector<int64_t, 6> index(d.size(), 0);
  auto for_each_run = [&](auto fn) {
    int64_t from = base;
    for (int64_t at = 0; at < n; at += run) {
      fn(at, from);
      for (size_t k = d.size(); k-- > 0;) {
        from += s[k];
        if (++index[k] < d[k])
          break;
        from -= s[k] * d[k];
        index[k] = 0;
      }
    }
  };
  if (src.dtype() == DType::String) {
    std::vector<std::string> strings(n);
    for_each_run([&](int64_t at, int64_t from) {
      for (int64_t i = 0; i < run; ++i)
        strings[at + i] = src.strings()[from + i * step];
    });
    return Tensor::Strings(dims, std::move(strings));
  }
  const int size = ByteSize(src.dtype());
  uint8_t *to = out.mutable_bytes();
  for_each_run(
      [&](int64_t at, int64_t from) { GatherRun(to + at * size, src.bytes() + from * size, run, step, size); });
  return out;
}

StatusOr<ElementWriter> ElementWriter::Create(DType dtype, llvm::ArrayRef<int64_t> dims) {
  ElementWriter w;
  w.dims_.assign(dims.begin(), dims.end());
  NPUC_ASSIGN_OR_RETURN(w.tensor_, AllocateResult(dtype, dims));
  w.size_ = ByteSize(dtype);
  if (dtype == DType::String)
    w.strings_.resize(NumElements(dims));
  return w;
}

void ElementWriter::Copy(int64_t at, const Tensor &src, int64_t from, int64_t count) {
  if (count <= 0)
    return;
  if (size_ == 0) {
    for (int64_t i = 0; i < count; ++i)
      strings_[at + i] = src.strings()[from + i];
    return;
  }
  std::memcpy(tensor_.mutable_bytes() + at * size_, src.bytes() + from * size_, count * size_);
}

void ElementWriter::Fill(int64_t at, const Tensor &src, int64_t from, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    Copy(at + i, src, from);
}

Tensor ElementWriter::Finish() {
  if (size_ == 0)
    return Tensor::Strings(dims_, std::move(strings_));
  return std::move(tensor_);
}

std::optional<llvm::SmallVector<int64_t, 4>> KnownInts(InferContext &ctx, int i) {
  if (!ctx.has_operand(i))
    return std::nullopt;
  if (const Tensor *t = ctx.constant(i)) {
    if (!IsInt(t->dtype()))
      return std::nullopt;
    return AsInts(*t);
  }
  auto d = ctx.dims(i);
  if (!d)
    return std::nullopt;
  llvm::SmallVector<int64_t, 4> v;
  for (const Dim &x : *d) {
    if (!x.is_static())
      return std::nullopt;
    v.push_back(x.value());
  }
  return v;
}

std::optional<int64_t> KnownLength(InferContext &ctx, int i) {
  if (!ctx.has_operand(i))
    return std::nullopt;
  const Shape s = ShapeOf(ctx, i);
  if (!s.ranked() || s.rank() != 1 || !s[0].is_static())
    return std::nullopt;
  return s[0].value();
}

StatusOr<Shape> ShapeFromDims(llvm::ArrayRef<Dim> dims, std::string_view what) {
  for (const Dim &d : dims)
    if (d.is_static() && d.value() < 0)
      return ShapeError(fmt::format("{} has the negative extent {}", what, d.value()));
  return Shape(dims);
}

} // namespace npuc::ops
