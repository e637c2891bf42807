// A 64-bit fingerprint of a module: two modules have the same one if and only if (but for chance) they print the same
// text.
//
// The module is written as a stream of bytes in which every list is preceded by its length and every choice by its tag,
// values stand as their number in order of definition, tensors as their own hash; the stream is hashed in pieces.
#include <cstring>

#include "compiler/ir/graph.h"
#include "compiler/support/hash.h"
#include "llvm/ADT/DenseMap.h"

namespace npuc {
namespace {

class Hasher {
public:
  void Number(uint64_t v) { Bytes(&v, sizeof v); }
  void String(std::string_view s) {
    Number(s.size());
    Bytes(s.data(), s.size());
  }
  void Float(float f) { Bytes(&f, sizeof f); }
  void AddModule(const Module &m);
  uint64_t Finish() {
    Flush();
    return hash_;
  }

private:
  void Bytes(const void *p, size_t n) {
    if (n == 0)
      return;
    buffer_.append(static_cast<const char *>(p), n);
    if (buffer_.size() >= 1 << 16)
      Flush();
  }
  void Flush() {
    hash_ = (hash_ ^ Xxh3(buffer_.data(), buffer_.size())) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 32;
    buffer_.clear();
  }
  void AddType(const Type &t);
  void AddAttribute(const Attribute &a);
  void AddGraph(const Graph &g);
  void Define(const Value &v) {
    numbers_.try_emplace(&v, numbers_.size());
    String(v.name());
    AddType(v.type());
  }

  std::string buffer_;
  uint64_t hash_ = 0;
  llvm::DenseMap<const Value *, unsigned> numbers_;
};

void Hasher::AddType(const Type &t) {
  Number(static_cast<uint64_t>(t.kind()) << 16 | static_cast<uint64_t>(t.dtype()) << 8 |
         static_cast<uint64_t>(t.layout()));
  switch (t.kind()) {
  case Type::Kind::None:
    return;
  case Type::Kind::Sequence:
  case Type::Kind::Optional:
  case Type::Kind::Map:
    return AddType(t.element());
  case Type::Kind::Tensor:
    break;
  }
  Number(t.shape().ranked() ? t.shape().rank() : ~uint64_t{0});
  if (t.shape().ranked())
    for (const Dim &d : t.shape().dims()) {
      Number(d.is_static());
      if (d.is_static())
        Number(d.value());
      else
        String(d.symbol());
    }
  Number(t.quant() != nullptr);
  if (t.quant()) {
    Number(static_cast<uint64_t>(int64_t{t.quant()->axis}));
    Number(t.quant()->scales.size());
    for (float s : t.quant()->scales)
      Float(s);
    Number(t.quant()->zero_points.size());
    for (int32_t z : t.quant()->zero_points)
      Number(static_cast<uint64_t>(int64_t{z}));
  }
}

void Hasher::AddAttribute(const Attribute &a) {
  Number(a.index());
  if (const auto *i = std::get_if<int64_t>(&a))
    return Number(*i);
  if (const auto *f = std::get_if<float>(&a))
    return Float(*f);
  if (const auto *s = std::get_if<std::string>(&a))
    return String(*s);
  if (const auto *t = std::get_if<Tensor>(&a))
    return Number(t->Hash());
  if (const auto *t = std::get_if<Type>(&a))
    return AddType(*t);
  if (const auto *v = std::get_if<std::vector<int64_t>>(&a)) {
    Number(v->size());
    for (int64_t i : *v)
      Number(i);
  } else if (const auto *v = std::get_if<std::vector<float>>(&a)) {
    Number(v->size());
    for (float f : *v)
      Float(f);
  } else if (const auto *v = std::get_if<std::vector<std::string>>(&a)) {
    Number(v->size());
    for (const std::string &s : *v)
      String(s);
  } else {
    const auto &tensors = std::get<std::vector<Tensor>>(a);
    Number(tensors.size());
    for (const Tensor &t : tensors)
      Number(t.Hash());
  }
}

void Hasher::AddGraph(const Graph &g) {
  Number(g.num_inputs());
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    Define(*g.input(i));
  Number(g.nodes().size());
  for (const Node &n : g.nodes()) {
    String(n.op().domain);
    String(n.op().name);
    Number(n.num_operands());
    for (const Value *v : n.operands())
      Number(v ? numbers_.lookup(v) + 1 : 0);
    Number(static_cast<uint64_t>(n.placement()));
    Number(n.origin().size());
    for (OriginId id : n.origin())
      Number(id);
    for (const auto &a : n.attrs()) {
      String(a.name);
      AddAttribute(a.value);
    }
    Number(~uint64_t{0}); // no attribute's name has this length
    Number(n.num_bodies());
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      AddGraph(*n.body(i));
    Number(n.num_results());
    for (unsigned i = 0; i < n.num_results(); ++i)
      Define(*n.result(i));
  }
  for (const std::string &name : g.output_names())
    String(name);
}

void Hasher::AddModule(const Module &m) {
  String(m.file);
  Number(m.ir_version);
  Number(m.opsets.size());
  for (const auto &[domain, version] : m.opsets) {
    String(domain);
    Number(version);
  }
  String(m.producer);
  Number(m.metadata.size());
  for (const auto &[key, value] : m.metadata) {
    String(key);
    String(value);
  }
  Number(m.onnx_nodes().size());
  for (const OnnxNode &n : m.onnx_nodes()) {
    String(n.id);
    String(n.name);
    String(n.op_type);
    String(n.domain);
  }
  AddGraph(m.main());
}

} // namespace

uint64_t Hash(const Module &m) {
  Hasher h;
  h.AddModule(m);
  return h.Finish();
}

} // namespace npuc
