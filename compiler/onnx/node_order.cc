// Names that nodes read, and the order of a node list in which every tensor is made before it is read.
//
// ONNX wants lists sorted; old exporters and editors write unsorted ones. A stable Kahn sort (ready node with the least
// index first) leaves sorted lists as they are. A node depends on the producers of its inputs and of what its bodies
// read from outside. O((nodes + reads) log nodes).
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "compiler/onnx/builder.h"

namespace npuc::onnx_import {
namespace {

void CollectReads(const ::onnx::NodeProto &n, std::set<std::string> &reads) {
  for (const auto &name : n.input())
    if (!name.empty())
      reads.insert(name);
  for (const auto &a : n.attribute()) {
    if (a.has_g())
      reads.merge(FreeNames(a.g()));
    for (const auto &g : a.graphs())
      reads.merge(FreeNames(g));
  }
}

} // namespace

std::set<std::string> NamesRead(const ::onnx::NodeProto &n) {
  std::set<std::string> reads;
  CollectReads(n, reads);
  return reads;
}

std::set<std::string> FreeNames(const ::onnx::GraphProto &g) {
  std::set<std::string> reads;
  std::unordered_set<std::string> defined;
  for (const auto &i : g.input())
    defined.insert(i.name());
  for (const auto &t : g.initializer())
    defined.insert(t.name());
  for (const auto &t : g.sparse_initializer())
    defined.insert(t.values().name());
  for (const auto &n : g.node()) {
    CollectReads(n, reads);
    for (const auto &o : n.output())
      defined.insert(o);
  }
  for (const auto &o : g.output())
    reads.insert(o.name());
  for (auto it = reads.begin(); it != reads.end();)
    it = defined.count(*it) ? reads.erase(it) : std::next(it);
  return reads;
}

StatusOr<std::vector<int>> Builder::Order(const NodeList &nodes, const Scope &scope,
                                          llvm::ArrayRef<OriginId> ids) const {
  const int count = nodes.size();
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < count; ++i)
    for (const auto &o : nodes[i].output()) {
      if (o.empty())
        continue;
      auto [it, fresh] = producer.emplace(o, i);
      const bool outside = scope.values.count(o) != 0;
      if (!fresh || outside)
        return AtNode(Error("E0204",
                            fmt::format("the node's output '{}' is also made by {}", o,
                                        outside ? std::string("an input or initializer")
                                                : fmt::format("node '{}'", module_->onnx_nodes()[ids[it->second]].id)),
                            "a tensor name must be written once; rename one of the two"),
                      module_->onnx_nodes()[ids[i]].id, nodes[i].op_type());
    }
  std::vector<std::vector<int>> users(count);
  std::vector<int> missing(count, 0);
  std::vector<std::vector<std::pair<int, std::string>>> needs(count);
  bool sorted = true;
  for (int i = 0; i < count; ++i)
    for (const std::string &name : NamesRead(nodes[i])) {
      auto it = producer.find(name);
      if (it == producer.end())
        continue;
      users[it->second].push_back(i);
      needs[i].emplace_back(it->second, name);
      ++missing[i];
      sorted &= it->second < i;
    }
  std::vector<int> order;
  order.reserve(count);
  if (sorted) {
    for (int i = 0; i < count; ++i)
      order.push_back(i);
    return order;
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < count; ++i)
    if (!missing[i])
      ready.push(i);
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int u : users[i])
      if (--missing[u] == 0)
        ready.push(u);
  }
  if (static_cast<int>(order.size()) == count)
    return order;
  // Each node left waits for another one left; following those ends in the cycle.
  int at = 0;
  while (!missing[at])
    ++at;
  std::vector<bool> seen(count);
  std::string tensor;
  while (!seen[at]) {
    seen[at] = true;
    for (const auto &[from, name] : needs[at])
      if (missing[from]) {
        tensor = name;
        at = from;
        break;
      }
  }
  return AtNode(
      Error("E0204", fmt::format("the graph has a cycle: the node's output '{}' depends on itself", tensor),
            "an ONNX graph must be acyclic; check the tool that wrote the model for a tensor name used twice"),
      module_->onnx_nodes()[ids[at]].id, nodes[at].op_type());
}

} // namespace npuc::onnx_import
