// --input and --output, before anything is built: nodes that the part does not need and npuc does not know go, with
// what reads them, so that a decoder or a post-processing of someone else's operators can be cut off.
//
// What the part needs: nodes from its outputs back to its inputs. Known nodes outside it stay for now (the types of
// --input tensors come from them; import.cc cuts them later). An --input tensor whose node goes becomes an input of the
// model, of its value_info's type; without one it is float32, of the shape that --input-shape says.
// Cost: linear in nodes and names.
#include "compiler/onnx/builder.h"

namespace npuc::onnx_import {

bool Builder::IsKnown(const ::onnx::NodeProto &n, int depth) const {
  if (depth > 64)
    return true; // what calls itself is refused elsewhere, with a better reason
  const std::string domain = NormalDomain(n.domain());
  const auto all_known = [&](const NodeList &nodes) {
    return llvm::all_of(nodes, [&](const auto &inner) { return IsKnown(inner, depth + 1); });
  };
  if (const auto *f = FindFunction(n)) {
    if (!all_known(f->node()))
      return false;
  } else if (!LookupOp(domain, n.op_type()) && !HasAdapter(domain, n.op_type()) && !IsGradient(n)) {
    return false;
  }
  return llvm::all_of(n.attribute(), [&](const auto &a) { return !a.has_g() || all_known(a.g().node()); });
}

Status Builder::DropUnknownOutsidePart() {
  if (options_.inputs.empty() && options_.outputs.empty())
    return OkStatus();
  ::onnx::GraphProto &g = *model_.proto.mutable_graph();
  std::unordered_map<std::string, int> maker;
  for (int i = 0; i < g.node_size(); ++i)
    for (const auto &name : g.node(i).output())
      if (!name.empty())
        maker.emplace(name, i);
  const std::set<std::string> inputs(options_.inputs.begin(), options_.inputs.end());
  std::vector<bool> needed(g.node_size());
  std::vector<std::string> todo = options_.outputs;
  if (todo.empty())
    for (const auto &o : g.output())
      todo.push_back(o.name());
  while (!todo.empty()) {
    const std::string name = std::move(todo.back());
    todo.pop_back();
    auto it = maker.find(name);
    if (inputs.count(name) || it == maker.end() || needed[it->second])
      continue;
    needed[it->second] = true;
    for (const auto &read : NamesRead(g.node(it->second)))
      todo.push_back(read);
  }
  // Unknown ones outside, and what depends on them; a fixed point, as nodes may come in any order.
  std::vector<bool> gone(g.node_size());
  std::vector<std::set<std::string>> reads(g.node_size());
  bool any = false;
  for (int i = 0; i < g.node_size(); ++i) {
    gone[i] = !needed[i] && !IsKnown(g.node(i), 0);
    any |= gone[i];
  }
  if (!any)
    return OkStatus();
  for (int i = 0; i < g.node_size(); ++i)
    reads[i] = NamesRead(g.node(i));
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < g.node_size(); ++i) {
      if (gone[i] || needed[i])
        continue;
      for (const auto &name : reads[i])
        if (auto it = maker.find(name); it != maker.end() && gone[it->second])
          gone[i] = more = true;
    }
  }

  std::set<std::string> had_reader, has_reader;
  for (int i = 0; i < g.node_size(); ++i) {
    had_reader.insert(reads[i].begin(), reads[i].end());
    if (!gone[i])
      has_reader.insert(reads[i].begin(), reads[i].end());
  }
  auto made_by_gone = [&](const std::string &name) {
    auto it = maker.find(name);
    return it != maker.end() && gone[it->second];
  };
  for (const std::string &name : options_.inputs) {
    if (!made_by_gone(name))
      continue;
    ::onnx::ValueInfoProto info;
    for (const auto &v : g.value_info())
      if (v.name() == name)
        info = v;
    if (!info.type().has_tensor_type() || info.type().tensor_type().elem_type() == 0) {
      info.set_name(name);
      info.mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int>(DType::F32));
      diagnostics_.Note(fmt::format("--input '{}': the model does not say its type; it is taken as float32", name),
                        fmt::format("--input-shape {}=... gives its shape", name));
    }
    *g.add_input() = info;
  }
  // Outputs of the model that went; with --output they go anyway. Inputs that only fed what went.
  auto keep = [](auto *list, auto &&stays) {
    int at = 0;
    for (int i = 0; i < list->size(); ++i)
      if (stays(i))
        list->SwapElements(at++, i);
    list->DeleteSubrange(at, list->size() - at);
  };
  keep(g.mutable_output(),
       [&](int i) { return !made_by_gone(g.output(i).name()) || inputs.count(g.output(i).name()); });
  keep(g.mutable_input(), [&](int i) {
    const std::string &name = g.input(i).name();
    return inputs.count(name) || has_reader.count(name) || !had_reader.count(name);
  });
  keep(g.mutable_node(), [&](int i) { return !gone[i]; });
  return OkStatus();
}

} // namespace npuc::onnx_import
