// Adapters of ai.onnx.ml: LabelEncoder of version 1 to that of today.
#include <numeric>

#include "compiler/onnx/adapters.h"

namespace npuc::onnx_import {
namespace {

// Version 1: a list of strings, the label being a string's place; the input's type says which way.
Status LabelEncoder1(AdaptedNode &n) {
  const std::vector<std::string> classes = n.attrs.StringList("classes_strings").vec();
  if (classes.empty())
    return OkStatus();
  std::vector<int64_t> places(classes.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  const bool to_places = n.InputDType(0) == DType::String;
  n.attrs.Erase("classes_strings");
  n.attrs.Set(to_places ? "keys_strings" : "values_strings", classes);
  n.attrs.Set(to_places ? "values_int64s" : "keys_int64s", places);
  return OkStatus();
}

constexpr AdapterRow kRows[] = {
    {"ai.onnx.ml", "LabelEncoder", 2, LabelEncoder1},
};

} // namespace

llvm::ArrayRef<AdapterRow> MlAdapters() {
  return kRows;
}

} // namespace npuc::onnx_import
