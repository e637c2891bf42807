// Byte sets of views, and whether two of them meet.
//
// Two nested boxes are compared by recursion from the outermost dimension: when both have the same outer stride, only
// the relative shift k of the two indices matters, and only those few k are tried whose inner boxes' bounds meet;
// otherwise the box of greater extent is opened, and of its slices only those whose bounds meet the other box are
// followed. For views of one tensor (equal strides) that is a handful of steps for any extents; strides without
// relation cost as much as the slices that interlock.
#include "backend/isa/byte_box.h"

#include <algorithm>

namespace npuc::isa {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
int64_t CeilDiv(int64_t a, int64_t b) {
  return -FloorDiv(-a, b);
}

// A box without its first `skip` dims, at another base.
struct Part {
  const ByteBox *box;
  int skip;
  int64_t base;
  int64_t Span() const {
    int64_t s = box->run;
    for (int i = skip; i < box->num_dims; ++i)
      s += (box->dims[i].count - 1) * box->dims[i].stride;
    return s;
  }
  bool leaf() const { return skip == box->num_dims; }
  const ByteBox::Dim &dim() const { return box->dims[skip]; }
  Part At(int64_t i) const { return {box, skip + 1, base + i * dim().stride}; }
};

bool Meet(const Part &a, const Part &b) {
  const int64_t span_a = a.Span(), span_b = b.Span();
  if (a.base >= b.base + span_b || b.base >= a.base + span_a)
    return false;
  if (a.leaf() && b.leaf())
    return true;
  if (!a.leaf() && !b.leaf() && a.dim().stride == b.dim().stride) {
    const int64_t s = a.dim().stride;
    const Part ia = a.At(0), ib = b.At(0);
    const int64_t inner_a = ia.Span(), inner_b = ib.Span();
    // Index difference k = i_b - i_a: inner boxes at a.base and b.base + k*s meet only within these.
    int64_t lo = CeilDiv(a.base - inner_b + 1 - b.base, s), hi = FloorDiv(a.base + inner_a - 1 - b.base, s);
    lo = std::max(lo, -(a.dim().count - 1));
    hi = std::min(hi, b.dim().count - 1);
    for (int64_t k = lo; k <= hi; ++k)
      if (Meet(ia, {ib.box, ib.skip, b.base + k * s}))
        return true;
    return false;
  }
  // Open the one with the greater outer stride (a leaf can't be opened).
  const bool open_a = b.leaf() || (!a.leaf() && a.dim().stride >= b.dim().stride);
  const Part &x = open_a ? a : b;
  const Part &y = open_a ? b : a;
  const int64_t y_lo = y.base, y_hi = y.base + (open_a ? span_b : span_a);
  const int64_t s = x.dim().stride, inner = x.At(0).Span();
  const int64_t lo = std::max<int64_t>(0, CeilDiv(y_lo - inner + 1 - x.base, s));
  const int64_t hi = std::min(x.dim().count - 1, FloorDiv(y_hi - 1 - x.base, s));
  for (int64_t i = lo; i <= hi; ++i)
    if (Meet(x.At(i), y))
      return true;
  return false;
}

} // namespace

void ByteBox::Normalise() {
  int k = 0;
  for (int i = 0; i < num_dims; ++i) {
    Dim d = dims[i];
    if (d.count <= 1 || d.stride == 0)
      continue;
    if (d.stride < 0) {
      base += (d.count - 1) * d.stride;
      d.stride = -d.stride;
    }
    dims[k++] = d;
  }
  num_dims = k;
  std::stable_sort(dims.begin(), dims.begin() + num_dims,
                   [](const Dim &a, const Dim &b) { return a.stride > b.stride; });
  // Runs that touch or overlap grow together (innermost dim first).
  while (num_dims && dims[num_dims - 1].stride <= run) {
    run += (dims[num_dims - 1].count - 1) * dims[num_dims - 1].stride;
    --num_dims;
  }
  for (int i = num_dims - 1; i > 0; --i) {
    Dim &outer = dims[i - 1], &inner = dims[i];
    if (outer.stride != inner.stride * inner.count)
      continue;
    inner.count *= outer.count;
    std::copy(dims.begin() + i, dims.begin() + num_dims, dims.begin() + i - 1);
    --num_dims;
  }
}

ByteBoxes ByteBoxesOf(const View &v) {
  ByteBoxes out;
  const int64_t e = v.elem_bytes(), block = v.c_block;
  const int64_t end = int64_t{v.c0} + v.c; // lane after the last, counted from block 0
  const int64_t blocks = (end + block - 1) / block;
  const int64_t stop = v.tail == Tail::Fill ? blocks * block : end;
  auto add = [&](int64_t b0, int64_t nb, int64_t lane0, int64_t lanes) {
    ByteBox box;
    box.base = v.address.offset + b0 * v.stride_c1 + lane0 * e;
    box.run = lanes * e;
    box.Add(v.n, v.stride_n);
    box.Add(nb, v.stride_c1);
    box.Add(v.h, v.stride_h);
    box.Add(v.w, v.stride_w);
    out.push_back(box);
  };
  if (blocks == 1) {
    add(0, 1, v.c0, stop - v.c0);
    return out;
  }
  int64_t b = 0, last = blocks; // whole blocks [b, last)
  if (v.c0 != 0)
    b = 1;
  if (stop < blocks * block)
    last = blocks - 1;
  if (v.c0 != 0)
    add(0, 1, v.c0, block - v.c0);
  if (last > b)
    add(b, last - b, 0, block);
  if (last < blocks)
    add(last, 1, 0, stop - last * block);
  return out;
}

ByteBoxes ByteSetOf(const View &v) {
  ByteBoxes out = ByteBoxesOf(v);
  for (ByteBox &b : out)
    b.Normalise();
  return out;
}

bool Overlaps(const ByteBox &a, const ByteBox &b) {
  return Meet({&a, 0, a.base}, {&b, 0, b.base});
}

bool Overlaps(const ByteBox &a, int64_t lo, int64_t hi) {
  ByteBox b;
  b.base = lo;
  b.run = hi - lo;
  return Meet({&a, 0, a.base}, {&b, 0, lo});
}

bool AliasesItself(const View &v) {
  ByteBoxes sets = ByteBoxesOf(v);
  for (ByteBox &box : sets) {
    for (int i = 0; i < box.num_dims; ++i)
      if (box.dims[i].count > 1 && box.dims[i].stride == 0)
        return true;
    // From the inside out: a dim adds no alias if it steps over all that is inside it; else its shifted copies are
    // compared.
    std::array<ByteBox::Dim, 4> dims{};
    int k = 0;
    for (int i = 0; i < box.num_dims; ++i)
      if (box.dims[i].count > 1)
        dims[k++] = {box.dims[i].count, std::abs(box.dims[i].stride)};
    std::stable_sort(dims.begin(), dims.begin() + k,
                     [](const ByteBox::Dim &a, const ByteBox::Dim &b) { return a.stride < b.stride; });
    ByteBox inner;
    inner.base = 0;
    inner.run = box.run;
    for (int i = 0; i < k; ++i) {
      ByteBox set = inner;
      set.Normalise();
      const ByteRange span = set.Bounds();
      for (int64_t j = 1; j < dims[i].count && j * dims[i].stride < span.hi - span.lo; ++j) {
        ByteBox shifted = set;
        shifted.base += j * dims[i].stride;
        if (Overlaps(set, shifted))
          return true;
      }
      inner.Add(dims[i].count, dims[i].stride);
    }
  }
  for (ByteBox &box : sets)
    box.Normalise();
  for (size_t i = 0; i < sets.size(); ++i)
    for (size_t j = i + 1; j < sets.size(); ++j)
      if (Overlaps(sets[i], sets[j]))
        return true;
  return false;
}

} // namespace npuc::isa
