// Text -> Module: recursive descent over the grammar of docs/ir.md, one token of lookahead.
//
// Names must be defined before they are used, and a body's names vanish with it. The result is structurally sound as
// far as it goes; Verify() has the last word (operand counts, attribute kinds, op.verify).
#include "compiler/ir/graph.h"
#include "compiler/ir/value_parser.h"
#include "llvm/ADT/StringMap.h"

namespace npuc {
namespace {

using text::Token;

constexpr int kMaxBodyDepth = 200;

class Parser : text::ValueParser {
public:
  Parser(std::string_view text, std::string_view file, const ExternalReader *external = nullptr)
      : ValueParser(text, file, external), module_(std::make_unique<Module>()) {}

  StatusOr<std::unique_ptr<Module>> Run() {
    if (!ParseModule())
      return status();
    return std::move(module_);
  }

private:
  bool ParseModule();
  bool ParseOnnxNodes();
  bool ParseOpName(std::string *domain, std::string *name);
  bool ParseGraph(Graph &g);
  bool ParseNode(Graph &g);
  bool ParseReturn(Graph &g);
  bool ParseDefName(std::string *name);
  bool ParseUse(Value **out);
  bool CheckNew(const Token &at, std::string_view name) {
    // Unique in the module, values of finished bodies included.
    if (!name.empty() && module_->UniqueValueName(name) == name)
      return true;
    return ErrorAt(at, "E0210", name.empty() ? "a value has no name" : fmt::format("two values are called '{}'", name));
  }
  void Show(Value *v) {
    visible_[v->name()] = v;
    scope_.push_back(v);
  }

  std::unique_ptr<Module> module_;
  llvm::StringMap<Value *> visible_;
  std::vector<Value *> scope_; // what is visible, in order of definition
  int depth_ = 0;
};

bool Parser::ParseModule() {
  Module &m = *module_;
  // A lone graph is a module without a header, for short tests.
  if (token().Is("graph")) {
    Next();
    return ParseGraph(m.main()) && (AtEnd() || Fail("the end of the text"));
  }
  if (!Accept("module"))
    return Fail("'module' or 'graph'");
  if (!ParseString(&m.file) || !Expect("{"))
    return false;
  for (;;) {
    if (Accept("ir_version")) {
      if (!ParseInt(&m.ir_version))
        return false;
    } else if (Accept("opset")) {
      auto &[domain, version] = m.opsets.emplace_back();
      if (!ParseString(&domain) || !ParseInt(&version))
        return false;
    } else if (Accept("producer")) {
      if (!ParseString(&m.producer))
        return false;
    } else if (Accept("metadata")) {
      auto &[key, value] = m.metadata.emplace_back();
      if (!ParseString(&key) || !Expect("=") || !ParseString(&value))
        return false;
    } else if (Accept("nodes")) {
      if (!ParseOnnxNodes())
        return false;
    } else if (Accept("graph")) {
      return ParseGraph(m.main()) && Expect("}") && (AtEnd() || Fail("the end of the text"));
    } else {
      return Fail("'ir_version', 'opset', 'producer', 'metadata', 'nodes' or 'graph'");
    }
  }
}

bool Parser::ParseOpName(std::string *domain, std::string *name) {
  domain->clear();
  if (!ParseName(name))
    return false;
  if (!Accept("::"))
    return true;
  *domain = std::move(*name);
  return ParseName(name);
}

bool Parser::ParseOnnxNodes() {
  if (!Expect("{"))
    return false;
  auto &nodes = module_->onnx_nodes();
  while (!Accept("}")) {
    const Token at = token();
    int64_t index;
    if (!ParseInt(&index))
      return false;
    if (index != static_cast<int64_t>(nodes.size()))
      return ErrorAt(
          at, "E0210",
          fmt::format("found node {}, expected {}: they are numbered from 0 without gaps", index, nodes.size()));
    OnnxNode &n = nodes.emplace_back();
    if (!Expect(":") || !ParseOpName(&n.domain, &n.op_type) || !ParseString(&n.id))
      return false;
    n.name = n.id;
    if (Accept("name") && !ParseString(&n.name))
      return false;
  }
  return true;
}

// '%' is read.
bool Parser::ParseDefName(std::string *name) {
  const Token at = token();
  return ParseName(name) && CheckNew(at, *name);
}

bool Parser::ParseUse(Value **out) {
  if (Accept("_")) {
    *out = nullptr;
    return true;
  }
  if (!Accept("%"))
    return Fail("a value (%name) or '_'");
  const Token at = token();
  std::string name;
  if (!ParseName(&name))
    return false;
  auto it = visible_.find(name);
  if (it == visible_.end())
    return ErrorAt(at, "E0210", fmt::format("value '%{}' is not defined before this use", name));
  *out = it->second;
  return true;
}

// "graph" is read.
bool Parser::ParseGraph(Graph &g) {
  if (++depth_ > kMaxBodyDepth)
    return Error("E0210", fmt::format("bodies nested more than {} deep", kMaxBodyDepth));
  const size_t outer = scope_.size();
  if (!Expect("("))
    return false;
  if (!ParseList(")", [&] {
        std::string name;
        Type type;
        if (!Expect("%") || !ParseDefName(&name))
          return false;
        if (Accept(":") && !ParseType(&type))
          return false;
        Show(g.AddInput(name, std::move(type)));
        return true;
      }))
    return false;
  if (!Expect("{"))
    return false;
  while (!token().Is("return")) {
    if (token().Is("}"))
      return Fail("a node or 'return'");
    if (!ParseNode(g))
      return false;
  }
  if (!ParseReturn(g) || !Expect("}"))
    return false;
  for (size_t i = outer; i < scope_.size(); ++i)
    visible_.erase(scope_[i]->name());
  scope_.resize(outer);
  --depth_;
  return true;
}

bool Parser::ParseReturn(Graph &g) {
  Next();
  if (token().Is("}"))
    return true;
  for (;;) {
    Value *v;
    const Token at = token();
    if (!ParseUse(&v))
      return false;
    if (!v)
      return ErrorAt(at, "E0210", "found '_', expected a value: an output can't be absent");
    std::string name = v->name();
    if (Accept("as") && !ParseString(&name))
      return false;
    g.AddOutput(v);
    g.set_output_name(g.num_outputs() - 1, name);
    if (!Accept(","))
      return true;
  }
}

bool Parser::ParseNode(Graph &g) {
  std::vector<std::string> names;
  std::vector<Type> types;
  while (Accept("%")) {
    const Token at = token();
    std::string name;
    if (!ParseDefName(&name))
      return false;
    for (const std::string &other : names)
      if (other == name)
        return ErrorAt(at, "E0210", fmt::format("two values are called '{}'", name));
    names.push_back(std::move(name));
    types.emplace_back();
    if (Accept(":") && !ParseType(&types.back()))
      return false;
    if (Accept("="))
      break;
    if (!Accept(",") || !token().Is("%"))
      return Fail("',' and another result, or '='");
  }
  const Token at = token();
  std::string domain, op_name;
  if (!ParseOpName(&domain, &op_name))
    return false;
  const OpDef *op =
      domain == ReturnOpDef()->domain && op_name == ReturnOpDef()->name ? nullptr : LookupOp(domain, op_name);
  if (!op)
    return ErrorAt(at, "E0205",
                   fmt::format("operator '{}{}{}' is unknown", domain, domain.empty() ? "" : "::", op_name));

  llvm::SmallVector<Value *, 4> operands;
  if (!Expect("(") || !ParseList(")", [&] { return ParseUse(&operands.emplace_back()); }))
    return false;
  Node *n = g.AddNode(op, operands, names.size(), {}, nullptr, names);
  for (size_t i = 0; i < types.size(); ++i)
    n->result(i)->set_type(std::move(types[i]));
  if (Accept("{") && !ParseList("}", [&] {
        const Token name_at = token();
        std::string name;
        Attribute value;
        if (!ParseName(&name) || !Expect("="))
          return false;
        if (n->attrs().Has(name))
          return ErrorAt(name_at, "E0210", fmt::format("attribute '{}' is given twice", name));
        const AttrSpec *spec = nullptr;
        for (const AttrSpec &s : op->attrs)
          if (s.name == name)
            spec = &s;
        const Type *implied = op == ConstantOpDef() && n->num_results() == 1 ? &n->result()->type() : nullptr;
        if (!ParseAttribute(spec, implied, &value))
          return false;
        n->attrs().Set(name, std::move(value));
        return true;
      }))
    return false;
  while (Accept("graph"))
    if (!ParseGraph(*n->AddBody()))
      return false;
  if (Accept("origin")) {
    Origin origin;
    const Token origin_at = token();
    if (!Expect("(") || !ParseList(")", [&] {
          uint64_t id;
          if (!ParseUnsigned(&id, 0xffffffff))
            return false;
          origin.push_back(id);
          return true;
        }))
      return false;
    for (size_t i = 0; i < origin.size(); ++i) {
      if (origin[i] >= module_->onnx_nodes().size())
        return ErrorAt(origin_at, "E0210",
                       fmt::format("origin {} of {} ONNX nodes", origin[i], module_->onnx_nodes().size()));
      if (i && origin[i - 1] >= origin[i])
        return ErrorAt(origin_at, "E0210", "origins are not in ascending order");
    }
    n->set_origin(std::move(origin));
  }
  if (Accept("@")) {
    if (Accept("npu"))
      n->set_placement(Placement::Npu);
    else if (Accept("host"))
      n->set_placement(Placement::Host);
    else
      return Fail("'npu' or 'host'");
  }
  for (unsigned i = 0; i < n->num_results(); ++i)
    Show(n->result(i));
  return true;
}

} // namespace

StatusOr<std::unique_ptr<Module>> ParseModule(std::string_view text, std::string_view file) {
  return Parser(text, file).Run();
}

StatusOr<std::unique_ptr<Module>> ParseModule(std::string_view text, std::string_view file,
                                              const ExternalReader &external) {
  return Parser(text, file, &external).Run();
}

} // namespace npuc
