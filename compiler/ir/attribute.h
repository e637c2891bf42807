// Attribute values of a node, and the sorted list that holds them.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/types/tensor.h"
#include "compiler/types/type.h"
#include "llvm/ADT/SmallVector.h"

namespace npuc {

// int, float, string, lists of them, tensor, type (of Optional), or types. Sub-graphs are not attributes: see
// Node::bodies().
using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor, Type, std::vector<Tensor>>;

// Sorted by name; small.
class AttributeList {
public:
  struct Entry {
    std::string name;
    Attribute value;
  };
  const Attribute *Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  void Set(std::string_view name, Attribute value);
  void Erase(std::string_view name);
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  // The value, or `otherwise` when absent. A present value of another kind is a compiler bug (the op's schema was
  // checked).
  int64_t Int(std::string_view name, int64_t otherwise) const;
  float Float(std::string_view name, float otherwise) const;
  std::string_view String(std::string_view name, std::string_view otherwise) const;
  llvm::ArrayRef<int64_t> Ints(std::string_view name) const; // empty when absent
  llvm::ArrayRef<float> Floats(std::string_view name) const;
  llvm::ArrayRef<std::string> StringList(std::string_view name) const;
  const Tensor *TensorOrNull(std::string_view name) const;

private:
  llvm::SmallVector<Entry, 2> entries_;
};

bool SameAttribute(const Attribute &a, const Attribute &b); // bitwise for floats and tensors

} // namespace npuc
