// Small models for tests, written as protobuf messages, and helpers that import and run them.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/interp/interpreter.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/tensor_reader.h"
#include "onnx/onnx.pb.h"

namespace npuc::test {

// An extent or a symbol ("" leaves the dim without value).
struct DimSpec {
  int64_t value = -1;
  std::string symbol;
  DimSpec(int v) : value(v) {}          // NOLINT
  DimSpec(int64_t v) : value(v) {}      // NOLINT
  DimSpec(const char *s) : symbol(s) {} // NOLINT
};

struct Attr {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>, Tensor,
               ::onnx::GraphProto>
      value;
};
inline Attr I(std::string name, int64_t v) {
  return {std::move(name), v};
}
inline Attr F(std::string name, float v) {
  return {std::move(name), v};
}
inline Attr S(std::string name, std::string v) {
  return {std::move(name), std::move(v)};
}
inline Attr Is(std::string name, std::vector<int64_t> v) {
  return {std::move(name), std::move(v)};
}
inline Attr Fs(std::string name, std::vector<float> v) {
  return {std::move(name), std::move(v)};
}
inline Attr Ss(std::string name, std::vector<std::string> v) {
  return {std::move(name), std::move(v)};
}
inline Attr T(std::string name, Tensor v) {
  return {std::move(name), std::move(v)};
}
inline Attr G(std::string name, ::onnx::GraphProto v) {
  return {std::move(name), std::move(v)};
}

inline Tensor Floats(llvm::ArrayRef<int64_t> dims, std::vector<float> v) {
  return Tensor::Of<float>(DType::F32, dims, v);
}
inline Tensor Int64s(llvm::ArrayRef<int64_t> dims, std::vector<int64_t> v) {
  return Tensor::Of<int64_t>(DType::I64, dims, v);
}
// 1, 2, 3 ...
inline Tensor Counting(llvm::ArrayRef<int64_t> dims, float first = 1) {
  Tensor t = Tensor::Allocate(DType::F32, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.mutable_data<float>()[i] = first + static_cast<float>(i);
  return t;
}

using Names = std::vector<std::string>;

inline void SetAttr(::onnx::NodeProto &n, const Attr &a) {
  auto *p = n.add_attribute();
  p->set_name(a.name);
  if (auto *i = std::get_if<int64_t>(&a.value)) {
    p->set_type(::onnx::AttributeProto::INT);
    p->set_i(*i);
  } else if (auto *f = std::get_if<float>(&a.value)) {
    p->set_type(::onnx::AttributeProto::FLOAT);
    p->set_f(*f);
  } else if (auto *s = std::get_if<std::string>(&a.value)) {
    p->set_type(::onnx::AttributeProto::STRING);
    p->set_s(*s);
  } else if (auto *is = std::get_if<std::vector<int64_t>>(&a.value)) {
    p->set_type(::onnx::AttributeProto::INTS);
    for (int64_t v : *is)
      p->add_ints(v);
  } else if (auto *fs = std::get_if<std::vector<float>>(&a.value)) {
    p->set_type(::onnx::AttributeProto::FLOATS);
    for (float v : *fs)
      p->add_floats(v);
  } else if (auto *ss = std::get_if<std::vector<std::string>>(&a.value)) {
    p->set_type(::onnx::AttributeProto::STRINGS);
    for (const auto &v : *ss)
      p->add_strings(v);
  } else if (auto *t = std::get_if<Tensor>(&a.value)) {
    p->set_type(::onnx::AttributeProto::TENSOR);
    onnx_import::WriteTensor(*t, p->mutable_t());
  } else {
    p->set_type(::onnx::AttributeProto::GRAPH);
    *p->mutable_g() = std::get<::onnx::GraphProto>(a.value);
  }
}

inline void SetValueInfo(::onnx::ValueInfoProto &v, const std::string &name, DType dtype,
                         const std::vector<DimSpec> &dims) {
  v.set_name(name);
  auto *t = v.mutable_type()->mutable_tensor_type();
  t->set_elem_type(static_cast<int>(dtype));
  t->mutable_shape();
  for (const auto &d : dims) {
    auto *p = t->mutable_shape()->add_dim();
    if (d.value >= 0)
      p->set_dim_value(d.value);
    else if (!d.symbol.empty())
      p->set_dim_param(d.symbol);
  }
}

struct GraphBuilder {
  ::onnx::GraphProto own;
  ::onnx::GraphProto &g;
  GraphBuilder() : g(own) {}
  explicit GraphBuilder(::onnx::GraphProto &graph) : g(graph) {}
  GraphBuilder &In(const std::string &name, std::vector<DimSpec> dims, DType dtype = DType::F32) {
    SetValueInfo(*g.add_input(), name, dtype, dims);
    return *this;
  }
  GraphBuilder &Out(const std::string &name) {
    g.add_output()->set_name(name);
    return *this;
  }
  GraphBuilder &Init(const std::string &name, const Tensor &t) {
    auto *p = g.add_initializer();
    onnx_import::WriteTensor(t, p);
    p->set_name(name);
    return *this;
  }
  ::onnx::NodeProto &Node(const std::string &op, const Names &in, const Names &out, std::vector<Attr> attrs = {},
                          const std::string &name = "", const std::string &domain = "") {
    auto *n = g.add_node();
    n->set_op_type(op);
    n->set_name(name);
    n->set_domain(domain);
    for (const auto &i : in)
      n->add_input(i);
    for (const auto &o : out)
      n->add_output(o);
    for (const auto &a : attrs)
      SetAttr(*n, a);
    return *n;
  }
};

struct ModelHolder {
  ::onnx::ModelProto m;
};
struct ModelBuilder : ModelHolder, GraphBuilder {
  std::unique_ptr<DiagnosticEngine> engine = std::make_unique<DiagnosticEngine>();
  DiagnosticEngine &diagnostics = *engine;
  explicit ModelBuilder(int64_t opset = 17, int64_t ir = 8) : GraphBuilder(*m.mutable_graph()) {
    m.set_ir_version(ir);
    if (opset)
      Opset("", opset);
  }
  ModelBuilder &Opset(const std::string &domain, int64_t version) {
    auto *o = m.add_opset_import();
    o->set_domain(domain);
    o->set_version(version);
    return *this;
  }
  StatusOr<std::unique_ptr<Module>> Import(const ImportOptions &options = {}, const std::string &folder = "") {
    diagnostics.Clear();
    return ImportModel(MappedFile::FromString(m.SerializeAsString(), "test.onnx"), folder, options, diagnostics);
  }
  // Imports (must succeed).
  std::unique_ptr<Module> Get(const ImportOptions &options = {}) {
    auto r = Import(options);
    EXPECT_TRUE(r.ok()) << diagnostics.RenderAll();
    return r.ok() ? std::move(*r) : nullptr;
  }
  // Imports and runs; empty on failure.
  std::vector<Tensor> Run(const std::vector<Tensor> &inputs, const ImportOptions &options = {}) {
    auto module = Get(options);
    if (!module)
      return std::vector<Tensor>(g.output_size());
    Interpreter interpreter(module->main());
    auto values = interpreter.Run(inputs);
    EXPECT_TRUE(values.ok()) << (values.ok() ? "" : std::string(Message(values.status())));
    std::vector<Tensor> out;
    if (values.ok())
      for (const auto &v : *values)
        out.push_back(v.tensor() ? v.tensor()->Expand() : Tensor());
    else
      out.resize(module->main().num_outputs());
    return out;
  }
  // Import must fail; the first error.
  Diagnostic Fail(const ImportOptions &options = {}, const std::string &folder = "") {
    auto r = Import(options, folder);
    EXPECT_FALSE(r.ok());
    for (const auto &d : diagnostics.All())
      if (d.severity == Severity::error)
        return d;
    ADD_FAILURE() << "no diagnostic";
    return {};
  }
};

inline std::vector<float> AsFloats(const Tensor &t) {
  std::vector<float> v;
  for (int64_t i = 0; t && i < t.num_elements(); ++i)
    v.push_back(static_cast<float>(t.AsDouble(i)));
  return v;
}
inline std::vector<int64_t> DimsOf(const Tensor &t) {
  return {t.dims().begin(), t.dims().end()};
}
inline void ExpectNear(const Tensor &t, const std::vector<float> &want, float tolerance = 1e-5f) {
  const auto got = AsFloats(t);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
}
inline std::vector<std::string> Ids(const Module &m) {
  std::vector<std::string> v;
  for (const auto &n : m.onnx_nodes())
    v.push_back(n.id);
  return v;
}

} // namespace npuc::test
