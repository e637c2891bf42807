// Module -> text. Grammar and meaning: docs/ir.md.
#include "compiler/ir/text.h"

#include "compiler/ir/graph.h"
#include "compiler/support/half.h"
#include "llvm/Support/Base64.h"

namespace npuc {
namespace {

using text::AppendName;
using text::AppendQuoted;

class Printer {
public:
  explicit Printer(bool with_data, const ExternalWriter *external = nullptr)
      : with_data_(with_data), external_(external) {}

  void PrintModule(const Module &m) {
    out_ += "module ";
    AppendQuoted(out_, m.file);
    out_ += " {\n";
    if (m.ir_version)
      Format("  ir_version {}\n", m.ir_version);
    for (const auto &[domain, version] : m.opsets) {
      out_ += "  opset ";
      AppendQuoted(out_, domain);
      Format(" {}\n", version);
    }
    if (!m.producer.empty()) {
      out_ += "  producer ";
      AppendQuoted(out_, m.producer);
      out_ += '\n';
    }
    for (const auto &[key, value] : m.metadata) {
      out_ += "  metadata ";
      AppendQuoted(out_, key);
      out_ += " = ";
      AppendQuoted(out_, value);
      out_ += '\n';
    }
    if (!m.onnx_nodes().empty()) {
      out_ += "  nodes {\n";
      unsigned i = 0;
      for (const OnnxNode &n : m.onnx_nodes()) {
        Format("    {}: ", i++);
        PrintOpName(n.domain, n.op_type);
        out_ += ' ';
        AppendQuoted(out_, n.id);
        if (n.name != n.id) {
          out_ += " name ";
          AppendQuoted(out_, n.name);
        }
        out_ += '\n';
      }
      out_ += "  }\n";
    }
    out_ += "  ";
    PrintGraph(m.main(), 1);
    out_ += "\n}\n";
  }

  void PrintNode(const Node &n, int depth, bool bodies);
  std::string Take() { return std::move(out_); }

private:
  template <class... Args> void Format(fmt::format_string<Args...> f, Args &&...args) {
    fmt::format_to(std::back_inserter(out_), f, std::forward<Args>(args)...);
  }
  void PrintGraph(const Graph &g, int depth);
  void PrintOpName(std::string_view domain, std::string_view name) {
    if (!domain.empty()) {
      AppendName(out_, domain);
      out_ += "::";
    }
    AppendName(out_, name);
  }
  void PrintUse(const Value *v) {
    if (!v) {
      out_ += '_';
      return;
    }
    out_ += '%';
    AppendName(out_, v->name());
  }
  void PrintDef(const Value &v) {
    PrintUse(&v);
    if (v.type().is_none())
      return;
    out_ += ": ";
    text::AppendType(out_, v.type());
  }
  void PrintAttribute(const Attribute &a, const Type *implied);
  void PrintTensor(const Tensor &t, const Type *implied);
  void PrintElement(const Tensor &t, int64_t i);
  template <class List, class Fn> void PrintList(std::string_view kind, const List &list, Fn item) {
    if (list.empty())
      out_ += kind; // an empty list doesn't show its kind
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i)
        out_ += ", ";
      item(list[i]);
    }
    out_ += ']';
  }

  std::string out_;
  bool with_data_;
  const ExternalWriter *external_;
};

void Printer::PrintElement(const Tensor &t, int64_t i) {
  switch (t.dtype()) {
  case DType::F32:
    return text::AppendFloat(out_, t.data<float>()[i], false);
  case DType::F64:
    return text::AppendDouble(out_, t.data<double>()[i]);
  case DType::F16:
  case DType::BF16: {
    const uint16_t bits = t.data<uint16_t>()[i];
    const float v = t.dtype() == DType::F16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
    const uint16_t back = t.dtype() == DType::F16 ? FloatToHalf(v) : FloatToBFloat16(v);
    if (v == v && back == bits)
      return text::AppendFloat(out_, v, false);
    return Format("0x{:04x}", bits);
  }
  case DType::C64:
    out_ += '(';
    text::AppendFloat(out_, t.data<float>()[2 * i], false);
    out_ += ", ";
    text::AppendFloat(out_, t.data<float>()[2 * i + 1], false);
    out_ += ')';
    return;
  case DType::C128:
    out_ += '(';
    text::AppendDouble(out_, t.data<double>()[2 * i]);
    out_ += ", ";
    text::AppendDouble(out_, t.data<double>()[2 * i + 1]);
    out_ += ')';
    return;
  case DType::String:
    return AppendQuoted(out_, t.strings()[i]);
  case DType::U64:
    return Format("{}", t.data<uint64_t>()[i]);
  case DType::Bool:
    if (t.bytes()[i] <= 1) {
      out_ += t.bytes()[i] ? "true" : "false";
      return;
    }
    return Format("0x{:02x}", t.bytes()[i]);
  default:
    if (IsInt(t.dtype()))
      return Format("{}", t.AsInt(i));
    return Format("0x{:02x}", t.bytes()[i]); // 8-bit and 4-bit floats: the bits
  }
}

void Printer::PrintTensor(const Tensor &t, const Type *implied) {
  auto type = [&](bool always) {
    const bool same = implied && implied->is_static_tensor() && implied->dtype() == t.dtype() &&
                      implied->shape() == Shape::Of(t.dims());
    if (same && !always)
      return;
    out_ += Name(t.dtype());
    out_ += ToString(t.dims());
    out_ += ": ";
  };
  if (!t) {
    out_ += "dense<>";
    return;
  }
  if (external_)
    if (const std::optional<ExternalRange> range = (*external_)(t)) {
      out_ += "external<";
      type(false);
      return Format("{}, {}>", range->offset, range->bytes);
    }
  if (t.is_splat()) {
    out_ += "splat<";
    type(false);
    PrintElement(t, 0);
  } else if (t.num_elements() <= text::kMaxListed) {
    out_ += "dense<";
    type(false);
    for (int64_t i = 0, n = t.num_elements(); i < n; ++i) {
      if (i)
        out_ += ", ";
      PrintElement(t, i);
    }
  } else if (!with_data_) {
    out_ += "elided<";
    type(true);
    Format("0x{:016x}", t.Hash());
  } else if (t.dtype() == DType::String) {
    out_ += "dense<";
    type(false);
    for (size_t i = 0; i < t.strings().size(); ++i) {
      if (i)
        out_ += ", ";
      AppendQuoted(out_, t.strings()[i]);
    }
  } else {
    out_ += "base64<";
    type(false);
    out_ += '"';
    out_ += llvm::encodeBase64(llvm::StringRef(reinterpret_cast<const char *>(t.bytes()), t.num_stored_bytes()));
    out_ += '"';
  }
  out_ += '>';
}

void Printer::PrintAttribute(const Attribute &a, const Type *implied) {
  if (const auto *i = std::get_if<int64_t>(&a))
    return Format("{}", *i);
  if (const auto *f = std::get_if<float>(&a))
    return text::AppendFloat(out_, *f, true);
  if (const auto *s = std::get_if<std::string>(&a))
    return AppendQuoted(out_, *s);
  if (const auto *v = std::get_if<std::vector<int64_t>>(&a))
    return PrintList("ints", *v, [&](int64_t i) { Format("{}", i); });
  if (const auto *v = std::get_if<std::vector<float>>(&a))
    return PrintList("floats", *v, [&](float f) { text::AppendFloat(out_, f, true); });
  if (const auto *v = std::get_if<std::vector<std::string>>(&a))
    return PrintList("strings", *v, [&](const std::string &s) { AppendQuoted(out_, s); });
  if (const auto *t = std::get_if<Tensor>(&a))
    return PrintTensor(*t, implied);
  if (const auto *t = std::get_if<Type>(&a)) {
    out_ += "type ";
    return text::AppendType(out_, *t);
  }
  PrintList("tensors", std::get<std::vector<Tensor>>(a), [&](const Tensor &t) { PrintTensor(t, nullptr); });
}

void Printer::PrintNode(const Node &n, int depth, bool bodies) {
  if (n.is_return()) {
    out_ += "return";
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      out_ += i ? ", " : " ";
      PrintUse(n.operand(i));
      const std::string &name = n.graph()->output_names()[i];
      if (name == n.operand(i)->name())
        continue;
      out_ += " as ";
      AppendQuoted(out_, name);
    }
    return;
  }
  for (unsigned i = 0; i < n.num_results(); ++i) {
    if (i)
      out_ += ", ";
    PrintDef(*n.result(i));
  }
  if (n.num_results())
    out_ += " = ";
  PrintOpName(n.op().domain, n.op().name);
  out_ += '(';
  for (unsigned i = 0; i < n.num_operands(); ++i) {
    if (i)
      out_ += ", ";
    PrintUse(n.operand(i));
  }
  out_ += ')';
  if (!n.attrs().empty()) {
    out_ += " {";
    bool first = true;
    for (const auto &a : n.attrs()) {
      if (!first)
        out_ += ", ";
      first = false;
      AppendName(out_, a.name);
      out_ += " = ";
      PrintAttribute(a.value, n.is_constant() ? &n.result()->type() : nullptr);
    }
    out_ += '}';
  }
  for (unsigned i = 0; i < n.num_bodies(); ++i) {
    out_ += ' ';
    if (bodies)
      PrintGraph(*n.body(i), depth);
    else
      out_ += "graph {...}";
  }
  if (!n.origin().empty()) {
    out_ += " origin(";
    for (size_t i = 0; i < n.origin().size(); ++i)
      Format("{}{}", i ? ", " : "", n.origin()[i]);
    out_ += ')';
  }
  if (n.placement() != Placement::Unassigned)
    out_ += n.placement() == Placement::Npu ? " @npu" : " @host";
}

void Printer::PrintGraph(const Graph &g, int depth) {
  out_ += "graph (";
  for (unsigned i = 0; i < g.num_inputs(); ++i) {
    if (i)
      out_ += ", ";
    PrintDef(*g.input(i));
  }
  out_ += ") {\n";
  for (const Node &n : g.nodes()) {
    out_.append(2 * (depth + 1), ' ');
    PrintNode(n, depth + 1, true);
    out_ += '\n';
  }
  out_.append(2 * depth, ' ');
  out_ += '}';
}

} // namespace

std::string Print(const Module &m, bool with_data) {
  Printer p(with_data);
  p.PrintModule(m);
  return p.Take();
}

std::string PrintWithExternal(const Module &m, const ExternalWriter &external) {
  Printer p(true, &external);
  p.PrintModule(m);
  return p.Take();
}

std::string PrintNode(const Node &n) {
  Printer p(false);
  p.PrintNode(n, 0, false);
  return p.Take();
}

} // namespace npuc
