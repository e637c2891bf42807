#include "compiler/types/shape.h"

#include <mutex>
#include <unordered_set>

namespace npuc {

Dim Dim::Symbol(std::string_view name) {
  static std::mutex mutex;
  static auto *names =
      new std::unordered_set<std::string>(); // node-based: addresses stay; read by address, never iterated
  std::lock_guard<std::mutex> lock(mutex);
  Dim d;
  d.value_ = -1;
  d.symbol_ = &*names->insert(name.empty() ? "?" : std::string(name)).first;
  return d;
}

bool Dim::operator==(const Dim &o) const {
  if (symbol_ || o.symbol_)
    return symbol_ == o.symbol_ && *symbol_ != "?";
  return value_ == o.value_;
}

Shape Shape::Of(llvm::ArrayRef<int64_t> dims) {
  Shape s;
  s.dims_.assign(dims.begin(), dims.end());
  return s;
}

Shape Shape::Unranked() {
  Shape s;
  s.ranked_ = false;
  return s;
}

Shape Shape::UnknownDims(int rank) {
  Shape s;
  s.dims_.assign(rank, Dim::Unknown());
  return s;
}

bool Shape::is_static() const {
  if (!ranked_)
    return false;
  for (const Dim &d : dims_)
    if (!d.is_static())
      return false;
  return true;
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (const Dim &d : dims_)
    n *= d.value();
  return n;
}

Dims Shape::static_dims() const {
  Dims r;
  for (const Dim &d : dims_)
    r.push_back(d.value());
  return r;
}

bool Shape::operator==(const Shape &o) const {
  return ranked_ == o.ranked_ && (!ranked_ || dims_ == o.dims_);
}

std::string Shape::ToString() const {
  if (!ranked_)
    return "[*]";
  std::string s = "[";
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (i)
      s += ',';
    s += dims_[i].is_static() ? std::to_string(dims_[i].value()) : std::string(dims_[i].symbol());
  }
  return s + "]";
}

int64_t NumElements(llvm::ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

std::optional<int64_t> CheckedNumElements(llvm::ArrayRef<int64_t> dims) {
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0)
      return std::nullopt;
    if (d == 0)
      zero = true;
  }
  if (zero)
    return 0;
  for (int64_t d : dims)
    if (__builtin_mul_overflow(n, d, &n) || n > (int64_t{1} << 62))
      return std::nullopt;
  return n;
}

Dims RowMajorStrides(llvm::ArrayRef<int64_t> dims) {
  Dims s(dims.size(), 1);
  for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i)
    s[i] = s[i + 1] * dims[i + 1];
  return s;
}

std::string ToString(llvm::ArrayRef<int64_t> dims) {
  return Shape::Of(dims).ToString();
}

std::optional<Shape> BroadcastShapes(const Shape &a, const Shape &b) {
  if (!a.ranked() || !b.ranked())
    return Shape::Unranked();
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::UnknownDims(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const Dim da = ia < 0 ? Dim(1) : a[ia], db = ib < 0 ? Dim(1) : b[ib];
    if (da.is_static() && db.is_static()) {
      if (da.value() != db.value() && da.value() != 1 && db.value() != 1)
        return std::nullopt;
      out[i] = da.value() == 1 ? db : da;
    } else if (da.is_static()) {
      out[i] = da.value() == 1 ? db : da; // the free one must be 1 or equal at run time
    } else if (db.is_static()) {
      out[i] = db.value() == 1 ? da : db;
    } else {
      out[i] = da == db ? da : Dim::Unknown();
    }
  }
  return out;
}

} // namespace npuc
