// The model's inputs and initializers, under the user's options: fixed dims, whole shapes, bound values.
#include <charconv>

#include "compiler/onnx/builder.h"
#include "compiler/onnx/tensor_proto.h"
#include "compiler/ops/infer.h"
#include "compiler/support/half.h"

namespace npuc::onnx_import {
namespace {

// "name=value" at the first '=' whose left side is known; E0507 names what is known.
StatusOr<std::pair<std::string, std::string>> SplitNamed(const std::string &text, const std::set<std::string> &known,
                                                         std::string_view flag, std::string_view what) {
  for (size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1))
    if (known.count(text.substr(0, at)))
      return std::pair(text.substr(0, at), text.substr(at + 1));
  std::string list;
  for (const auto &k : known)
    list += (list.empty() ? "'" : ", '") + k + "'";
  if (text.find('=') == std::string::npos)
    return Error("E0501", fmt::format("{} '{}' is not NAME=VALUE", flag, text),
                 list.empty() ? fmt::format("the model has no {}", what)
                              : fmt::format("write {} NAME=VALUE; the names are {}", flag, list));
  return Error("E0507", fmt::format("{} '{}': the model has no such {}", flag, text, what),
               list.empty() ? fmt::format("the model has none") : fmt::format("the model has {}", list));
}

StatusOr<int64_t> ParseExtent(std::string_view text, std::string_view flag) {
  int64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || v < 0 || v > INT32_MAX)
    return Error("E0501", fmt::format("{}: '{}' is not an extent", flag, text), "extents are integers from 0 up");
  return v;
}

void CollectSymbols(const ::onnx::TypeProto &t, std::set<std::string> &out) {
  if (t.has_tensor_type())
    for (const auto &d : t.tensor_type().shape().dim())
      if (d.has_dim_param() && !d.dim_param().empty())
        out.insert(d.dim_param());
  if (t.has_sequence_type())
    CollectSymbols(t.sequence_type().elem_type(), out);
  if (t.has_optional_type())
    CollectSymbols(t.optional_type().elem_type(), out);
}

// "1,2.5,3", "[1,2]", "true" as a tensor of the input's type. One value fills a static shape.
StatusOr<Tensor> ParseValue(const std::string &name, std::string_view text, const Type &type) {
  auto bad = [&](std::string_view why) {
    return Error("E0501", fmt::format("--bind {}={}: {}", name, text, why),
                 fmt::format("the input is {}; give numbers separated by commas, or @FILE", type.ToString()));
  };
  if (!type.is_tensor() || type.dtype() == DType::Undefined)
    return bad("the input is not a tensor of known type");
  std::vector<std::string> items;
  std::string item;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ' ')
      continue;
    if (c == ',') {
      items.push_back(std::move(item));
      item.clear();
    } else {
      item += c;
    }
  }
  items.push_back(std::move(item));
  const Shape &shape = type.shape();
  Dims dims;
  if (type.is_static_tensor()) {
    dims = shape.static_dims();
  } else if (items.size() > 1 || (shape.ranked() && shape.rank() == 1)) {
    if (shape.ranked() && shape.rank() != 1)
      return bad("a list of numbers does not say a shape of more than one dim");
    dims.push_back(static_cast<int64_t>(items.size()));
  } else if (shape.ranked()) {
    dims.assign(shape.rank(), 1);
  }
  const int64_t n = NumElements(dims);
  if (items.size() != 1 && static_cast<int64_t>(items.size()) != n)
    return bad(fmt::format("{} values for {} elements", items.size(), n));
  if (type.dtype() == DType::String) {
    std::vector<std::string> strings;
    for (int64_t i = 0; i < n; ++i)
      strings.push_back(items[items.size() == 1 ? 0 : i]);
    return Tensor::Strings(dims, std::move(strings));
  }
  Tensor t = Tensor::Allocate(type.dtype(), dims);
  for (int64_t i = 0; i < n; ++i) {
    const std::string &s = items[items.size() == 1 ? 0 : i];
    if (IsFloat(type.dtype())) {
      char *end = nullptr;
      const double v = std::strtod(s.c_str(), &end);
      if (s.empty() || *end)
        return bad(fmt::format("'{}' is not a number", s));
      switch (type.dtype()) {
      case DType::F32:
        t.mutable_data<float>()[i] = static_cast<float>(v);
        break;
      case DType::F64:
        t.mutable_data<double>()[i] = v;
        break;
      case DType::F16:
        t.mutable_data<uint16_t>()[i] = DoubleToHalf(v);
        break;
      case DType::BF16:
        t.mutable_data<uint16_t>()[i] = DoubleToBFloat16(v);
        break;
      default:
        return bad("values of this type can only come from a file");
      }
      continue;
    }
    int64_t v = 0;
    if (type.dtype() == DType::Bool && (s == "true" || s == "false")) {
      v = s == "true";
    } else {
      auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
      if (error != std::errc() || end != s.data() + s.size())
        return bad(fmt::format("'{}' is not an integer", s));
    }
    const bool fits = type.dtype() == DType::Bool ? v == 0 || v == 1
                      : type.dtype() == DType::U64
                          ? v >= 0
                          : IsInt(type.dtype()) && v >= IntMin(type.dtype()) && v <= IntMax(type.dtype());
    if (!fits)
      return bad(fmt::format("{} is out of range", v));
    std::memcpy(t.mutable_bytes() + i * ByteSize(type.dtype()), &v, ByteSize(type.dtype()));
  }
  return t;
}

Status CheckBind(const std::string &name, const Tensor &t, const Type &type) {
  bool fits = type.is_tensor() && (type.dtype() == DType::Undefined || type.dtype() == t.dtype());
  if (fits && type.shape().ranked()) {
    fits = type.shape().rank() == t.rank();
    for (int i = 0; fits && i < t.rank(); ++i)
      fits = !type.shape()[i].is_static() || type.shape()[i].value() == t.dims()[i];
  }
  if (fits)
    return OkStatus();
  return Error("E0501",
               fmt::format("--bind {}: the value is {}{}, the input is {}", name, Name(t.dtype()), ToString(t.dims()),
                           type.ToString()),
               fmt::format("give a whole tensor with --bind {}=@FILE, or fix free dims with --input-shape", name));
}

} // namespace

Type Builder::Substitute(Type t) const {
  if (t.kind() == Type::Kind::Sequence)
    return Type::Sequence(Substitute(t.element()));
  if (t.kind() == Type::Kind::Optional)
    return Type::Optional(Substitute(t.element()));
  if (!t.is_tensor())
    return t;
  for (int i = 0; i < t.shape().rank(); ++i)
    if (!t.shape()[i].is_static())
      if (auto it = dims_.find(std::string(t.shape()[i].symbol())); it != dims_.end())
        t.shape()[i] = Dim(it->second);
  return t;
}

StatusOr<Type> Builder::InputType(const ::onnx::ValueInfoProto &v) const {
  auto t = TypeFromProto(v.type());
  if (!t.ok())
    return Prefix(t.status(), fmt::format("input '{}'", v.name()));
  return Substitute(*t);
}

Status Builder::ResolveDims() {
  const auto &g = model_.proto.graph();
  std::set<std::string> initialized, symbols, inputs;
  for (const auto &t : g.initializer())
    initialized.insert(t.name());
  for (const auto &t : g.sparse_initializer())
    initialized.insert(t.values().name());
  for (const auto &v : g.input()) {
    CollectSymbols(v.type(), symbols);
    inputs.insert(v.name());
  }
  for (const auto &v : g.output())
    CollectSymbols(v.type(), symbols);
  for (const auto &v : g.value_info())
    CollectSymbols(v.type(), symbols);

  for (const std::string &flag : options_.dims) {
    NPUC_ASSIGN_OR_RETURN(auto split, SplitNamed(flag, symbols, "--dim", "symbolic dim"));
    NPUC_ASSIGN_OR_RETURN(int64_t n, ParseExtent(split.second, "--dim " + split.first));
    auto [it, fresh] = dims_.emplace(split.first, n);
    if (!fresh && it->second != n)
      return Error("E0501", fmt::format("--dim {} is given as {} and as {}", split.first, it->second, n),
                   "give each dim once");
  }
  // Whole shapes first: they may fix symbols that other inputs use.
  std::map<std::string, std::vector<std::string>> shapes;
  for (const std::string &flag : options_.input_shapes) {
    NPUC_ASSIGN_OR_RETURN(auto split, SplitNamed(flag, inputs, "--input-shape", "input"));
    std::vector<std::string> items(1);
    for (char c : split.second) {
      if (c == 'x' || c == ',')
        items.emplace_back();
      else if (c != '[' && c != ']' && c != ' ')
        items.back() += c;
    }
    if (items.size() == 1 && items[0].empty())
      items.clear();
    shapes[split.first] = std::move(items);
  }
  for (int pass = 0; pass < 2; ++pass)
    for (const auto &v : g.input()) {
      NPUC_ASSIGN_OR_RETURN(Type type, InputType(v));
      if (auto it = shapes.find(v.name()); it != shapes.end()) {
        const std::string flag = "--input-shape " + v.name();
        if (!type.is_tensor())
          return Error("E0501", fmt::format("{}: the input is {}, not a tensor", flag, type.ToString()));
        int rank = static_cast<int>(it->second.size());
        if (!type.shape().ranked())
          type.set_shape(Shape::UnknownDims(rank));
        if (rank == 0 && type.shape().rank() > 0) {
          diagnostics_.Note(
              fmt::format("{}: no dims are given; the model's own {} stays", flag, type.shape().ToString()));
          shapes.erase(it);
          input_types_[v.name()] = type;
          continue;
        }
        if (rank > 0 && rank < type.shape().rank()) {
          // An image without its batch and channel: the leading dims are 1, if the model lets them.
          bool ones = true;
          for (int i = 0; i < type.shape().rank() - rank; ++i)
            ones &= !type.shape()[i].is_static() || type.shape()[i].value() == 1;
          if (ones) {
            it->second.insert(it->second.begin(), type.shape().rank() - rank, "1");
            diagnostics_.Note(fmt::format("{}: {} of the input's {} dims are given; the leading ones become 1", flag,
                                          rank, type.shape().rank()));
            rank = type.shape().rank();
          }
        }
        if (type.shape().rank() != rank)
          return Error("E0501",
                       fmt::format("{}: {} dims given, the input has shape {}", flag, rank, type.shape().ToString()),
                       "give every dim, for example 1x3x224x224");
        for (int i = 0; i < rank; ++i) {
          if (it->second[i] == "?")
            continue;
          NPUC_ASSIGN_OR_RETURN(int64_t n, ParseExtent(it->second[i], flag));
          const Dim d = type.shape()[i];
          if (d.is_static() && d.value() != n)
            return Error("E0501", fmt::format("{}: dim {} is {} in the model, {} was given", flag, i, d.value(), n),
                         "only free dims can be given");
          if (!d.is_static() && d.symbol() != "?")
            dims_.emplace(std::string(d.symbol()), n);
          type.shape()[i] = Dim(n);
        }
      }
      input_types_[v.name()] = type;
    }
  // Values for inputs.
  for (const std::string &flag : options_.binds) {
    NPUC_ASSIGN_OR_RETURN(auto split, SplitNamed(flag, inputs, "--bind", "input"));
    const Type &type = input_types_[split.first];
    Tensor t;
    if (!split.second.empty() && split.second[0] == '@') {
      NPUC_ASSIGN_OR_RETURN(t, ReadTensorFile(split.second.substr(1)));
    } else {
      NPUC_ASSIGN_OR_RETURN(t, ParseValue(split.first, split.second, type));
    }
    binds_[split.first] = std::move(t);
  }
  for (const auto &[name, t] : options_.bind_tensors) {
    if (!inputs.count(name))
      return Error("E0507", fmt::format("a value is bound to '{}', which is no input of the model", name));
    binds_[name] = t;
  }
  for (const auto &[name, t] : binds_) {
    NPUC_RETURN_IF_ERROR(CheckBind(name, t, input_types_[name]));
    const Type &type = input_types_[name];
    for (int i = 0; type.shape().ranked() && i < t.rank(); ++i)
      if (!type.shape()[i].is_static() && type.shape()[i].symbol() != "?")
        dims_.emplace(std::string(type.shape()[i].symbol()), t.dims()[i]);
  }
  // Leading dims, of inputs that have more than one: the batch. (A vector's only dim is its length.)
  if (options_.default_batch) {
    for (const auto &v : g.input()) {
      if (initialized.count(v.name()) || binds_.count(v.name()))
        continue;
      Type type = Substitute(input_types_[v.name()]);
      if (!type.is_tensor() || !type.shape().ranked() || type.shape().rank() < 2 || type.shape()[0].is_static())
        continue;
      const std::string symbol(type.shape()[0].symbol());
      if (symbol != "?") {
        dims_[symbol] = 1;
        diagnostics_.Note(fmt::format("input '{}': its leading dim '{}' is not given and becomes 1", v.name(), symbol),
                          fmt::format("--dim {}=N gives it another value", symbol));
      } else {
        input_types_[v.name()].shape()[0] = Dim(1);
        diagnostics_.Note(fmt::format("input '{}': its leading dim is not given and becomes 1", v.name()),
                          fmt::format("--input-shape {}=... gives it another value", v.name()));
      }
    }
  }
  for (auto &[name, type] : input_types_)
    type = Substitute(type);
  return OkStatus();
}

Status Builder::Define(Scope &scope, const std::string &name, Value *v, std::string_view what) {
  if (!scope.values.emplace(name, v).second)
    return Error("E0204", fmt::format("{} '{}' has the name of another input or initializer", what, name),
                 "a tensor name must be written once");
  return OkStatus();
}

Status Builder::BuildInitializers(const ::onnx::GraphProto &g, Scope &scope) {
  auto add = [&](const std::string &name, auto read) -> Status {
    if (name.empty())
      return Error("E0204", "an initializer has no name");
    if (auto it = scope.values.find(name); it != scope.values.end()) {
      // A bound value, or an input of the main graph that this is the value of: both were put there by BuildInputs.
      if (scope.outer == nullptr && binds_.count(name))
        return OkStatus();
      return Error("E0204", fmt::format("initializer '{}' is there twice", name), "a tensor name must be written once");
    }
    if (!scope.used.count(name)) {
      scope.values.emplace(name, nullptr); // reserved: a node may not make it again
      return OkStatus();
    }
    auto t = read();
    if (!t.ok())
      return t.status();
    return Define(scope, name, scope.graph->AddConstant(std::move(*t), name), "initializer");
  };
  for (const auto &t : g.initializer())
    NPUC_RETURN_IF_ERROR(add(t.name(), [&] { return ReadTensor(t, model_.tensors); }));
  for (const auto &t : g.sparse_initializer())
    NPUC_RETURN_IF_ERROR(add(t.values().name(), [&] { return ReadSparseTensor(t, model_.tensors); }));
  return OkStatus();
}

Status Builder::BuildInputs(Scope &scope) {
  const auto &g = model_.proto.graph();
  std::set<std::string> initialized;
  for (const auto &t : g.initializer())
    initialized.insert(t.name());
  for (const auto &t : g.sparse_initializer())
    initialized.insert(t.values().name());
  std::vector<std::string> frozen;
  std::set<std::string> seen;
  for (const auto &v : g.input()) {
    if (v.name().empty())
      return Error("E0204", "a model input has no name");
    if (!seen.insert(v.name()).second)
      return Error("E0204", fmt::format("input '{}' is there twice", v.name()), "a tensor name must be written once");
    if (auto it = binds_.find(v.name()); it != binds_.end()) {
      NPUC_RETURN_IF_ERROR(Define(scope, v.name(), scope.graph->AddConstant(it->second, v.name()), "input"));
      continue;
    }
    if (initialized.count(v.name())) {
      if (model_.proto.ir_version() >= 4)
        frozen.push_back(v.name());
      continue;
    }
    const Type &type = input_types_[v.name()];
    if (type.is_none())
      return Error("E0204", fmt::format("input '{}' has no type", v.name()), "export the model with typed inputs");
    Value *input = scope.graph->AddInput(v.name(), type);
    NPUC_RETURN_IF_ERROR(CheckTensorSize(*input));
    NPUC_RETURN_IF_ERROR(Define(scope, v.name(), input, "input"));
  }
  if (!frozen.empty()) {
    std::string list;
    for (size_t i = 0; i < frozen.size() && i < 5; ++i)
      list += (i ? ", '" : "'") + frozen[i] + "'";
    if (frozen.size() > 5)
      list += ", ...";
    diagnostics_.Note(fmt::format("{} input{} with a default value (initializer) {} compiled as constant{}: {}",
                                  frozen.size(), frozen.size() > 1 ? "s" : "", frozen.size() > 1 ? "are" : "is",
                                  frozen.size() > 1 ? "s" : "", list),
                      "remove the initializer from the model to keep it as an input");
  }
  return OkStatus();
}

} // namespace npuc::onnx_import
