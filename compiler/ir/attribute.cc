#include "compiler/ir/attribute.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/status.h"

namespace npuc {
namespace {

template <class T> const T *Get(const AttributeList &list, std::string_view name, const char *kind) {
  const Attribute *a = list.Find(name);
  if (!a)
    return nullptr;
  const T *v = std::get_if<T>(a);
  NPUC_CHECK(v != nullptr, "attribute '{}' is not {}", name, kind);
  return v;
}

bool SameFloat(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

} // namespace

const Attribute *AttributeList::Find(std::string_view name) const {
  for (const Entry &e : entries_)
    if (e.name == name)
      return &e.value;
  return nullptr;
}

void AttributeList::Set(std::string_view name, Attribute value) {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                             [](const Entry &e, std::string_view n) { return e.name < n; });
  if (at != entries_.end() && at->name == name)
    at->value = std::move(value);
  else
    entries_.insert(at, Entry{std::string(name), std::move(value)});
}

void AttributeList::Erase(std::string_view name) {
  auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry &e) { return e.name == name; });
  if (at != entries_.end())
    entries_.erase(at);
}

int64_t AttributeList::Int(std::string_view name, int64_t otherwise) const {
  const auto *v = Get<int64_t>(*this, name, "an int");
  return v ? *v : otherwise;
}

float AttributeList::Float(std::string_view name, float otherwise) const {
  const auto *v = Get<float>(*this, name, "a float");
  return v ? *v : otherwise;
}

std::string_view AttributeList::String(std::string_view name, std::string_view otherwise) const {
  const auto *v = Get<std::string>(*this, name, "a string");
  return v ? std::string_view(*v) : otherwise;
}

llvm::ArrayRef<int64_t> AttributeList::Ints(std::string_view name) const {
  const auto *v = Get<std::vector<int64_t>>(*this, name, "a list of ints");
  return v ? llvm::ArrayRef<int64_t>(*v) : llvm::ArrayRef<int64_t>();
}

llvm::ArrayRef<float> AttributeList::Floats(std::string_view name) const {
  const auto *v = Get<std::vector<float>>(*this, name, "a list of floats");
  return v ? llvm::ArrayRef<float>(*v) : llvm::ArrayRef<float>();
}

llvm::ArrayRef<std::string> AttributeList::StringList(std::string_view name) const {
  const auto *v = Get<std::vector<std::string>>(*this, name, "a list of strings");
  return v ? llvm::ArrayRef<std::string>(*v) : llvm::ArrayRef<std::string>();
}

const Tensor *AttributeList::TensorOrNull(std::string_view name) const {
  return Get<Tensor>(*this, name, "a tensor");
}

bool SameAttribute(const Attribute &a, const Attribute &b) {
  if (a.index() != b.index())
    return false;
  if (const auto *x = std::get_if<float>(&a))
    return SameFloat(*x, std::get<float>(b));
  if (const auto *x = std::get_if<std::vector<float>>(&a)) {
    const auto &y = std::get<std::vector<float>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), SameFloat);
  }
  if (const auto *x = std::get_if<Tensor>(&a))
    return x->SameBits(std::get<Tensor>(b));
  if (const auto *x = std::get_if<std::vector<Tensor>>(&a)) {
    const auto &y = std::get<std::vector<Tensor>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(),
                      [](const Tensor &t, const Tensor &u) { return t.SameBits(u); });
  }
  if (const auto *x = std::get_if<Type>(&a))
    return *x == std::get<Type>(b);
  if (const auto *x = std::get_if<int64_t>(&a))
    return *x == std::get<int64_t>(b);
  if (const auto *x = std::get_if<std::string>(&a))
    return *x == std::get<std::string>(b);
  if (const auto *x = std::get_if<std::vector<int64_t>>(&a))
    return *x == std::get<std::vector<int64_t>>(b);
  return std::get<std::vector<std::string>>(a) == std::get<std::vector<std::string>>(b);
}

} // namespace npuc
