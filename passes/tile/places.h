// Where tensors lie before addresses: which values share bytes, which live inside others, which stay on chip.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/program/program.h"
#include "compiler/target/target.h"
#include "llvm/ADT/DenseMap.h"

namespace npuc::tile {

// One run of nodes of equal placement.
struct Run {
  Placement placement;
  std::vector<const Node *> nodes; // constants left out
};
std::vector<Run> SplitRuns(const Graph &g);

// A piece of memory that holds one or more values (the same bytes seen through different types), either a buffer of its
// own or a box inside another root.
struct Root {
  int64_t bytes = 0;
  int io = -1;         // lies in this io region
  int parent = -1;     // lies inside that root ...
  isa::View in_parent; // ... as this view (address.offset relative to the parent's start)
  bool has_children = false;
  bool written_in_pieces = false; // by others, in runs shorter than its rows
  int first = 0, last = 0;        // live positions in the order of all nodes, children included (after Finish)
  bool on_chip = false;
  std::string name;
};

class Places {
public:
  // Shares what can be shared among the values that NPU nodes touch. `runs` from SplitRuns(g).
  Places(const Graph &g, const std::vector<Run> &runs, const Target &target);

  bool has(const Value *v) const { return value_root_.count(v) != 0; }
  // View of v relative to its outermost root: address = {Region::Buffer, root, offset}.
  isa::View view(const Value *v) const;
  std::vector<Root> &roots() { return roots_; }
  // Values that NPU and host exchange or that only the NPU sees. In a deterministic order.
  const std::vector<const Value *> &values() const { return values_; }

private:
  struct Entry {
    int root;
    isa::View view; // relative to the root's start
  };
  int NewRoot(const Value *v);
  void AddValue(const Value *v);
  bool Merge(const Value *a, const Value *b, const isa::View &b_view); // b takes a's root
  void ShareThrough(const Node &n);
  bool TouchedByHost(const Value *v) const;
  bool PlaceInside(const Value *inner, int outer_root, const isa::View &view_in_outer);

  const Graph &graph_;
  const Target &target_;
  std::vector<Root> roots_;
  std::vector<std::vector<const Value *>> members_; // by root
  llvm::DenseMap<const Value *, Entry> value_root_;
  std::vector<const Value *> values_;
};

// Chooses which roots stay in SRAM: those that live within one NPU run and fit beside the working memory of every node
// in between. `reserve[i]`: bytes that node i (position in the order of all nodes) should have for its tiles. Returns
// the bytes so occupied at each position.
std::vector<int64_t> ChooseOnChip(Places &places, const std::vector<Run> &runs, llvm::ArrayRef<int64_t> reserve,
                                  int64_t sram_bytes);

} // namespace npuc::tile
