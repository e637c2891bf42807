// Dinic's maximum flow (E. A. Dinic, 1970) with levels by breadth-first search and an iterative depth-first search of
// blocking flows. On the graphs of the layout pass (long, narrow, few terminals) a handful of phases suffice.
#include "passes/layout/min_cut.h"

#include <algorithm>

namespace npuc {

MinCut::MinCut(int variables) : adjacent_(2 + variables) {}

int MinCut::AddVariable() {
  adjacent_.emplace_back();
  return static_cast<int>(adjacent_.size()) - 3;
}

void MinCut::AddEdge(int from, int to, int64_t capacity) {
  adjacent_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  adjacent_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

void MinCut::Penalise(int from, int to, int64_t weight) {
  if (from != to && weight > 0)
    AddEdge(from + 2, to + 2, weight);
}

void MinCut::Fix(int variable, bool label) {
  if (label)
    AddEdge(variable + 2, 1, kNever);
  else
    AddEdge(0, variable + 2, kNever);
}

std::vector<bool> MinCut::Solve() {
  const int n = static_cast<int>(adjacent_.size());
  std::vector<int> level(n), next(n), queue, path;
  auto search = [&] {
    std::fill(level.begin(), level.end(), -1);
    queue.assign(1, 0);
    level[0] = 0;
    for (size_t k = 0; k < queue.size(); ++k)
      for (int e : adjacent_[queue[k]])
        if (edges_[e].capacity > 0 && level[edges_[e].to] < 0) {
          level[edges_[e].to] = level[queue[k]] + 1;
          queue.push_back(edges_[e].to);
        }
    return level[1] >= 0;
  };
  while (search()) {
    std::fill(next.begin(), next.end(), 0);
    path.clear();
    int at = 0;
    for (;;) {
      if (at == 1) {
        int64_t flow = kNever * 2;
        for (int e : path)
          flow = std::min(flow, edges_[e].capacity);
        size_t cut = 0;
        for (size_t k = path.size(); k-- > 0;) {
          edges_[path[k]].capacity -= flow;
          edges_[path[k] ^ 1].capacity += flow;
          if (edges_[path[k]].capacity == 0)
            cut = k;
        }
        at = edges_[path[cut] ^ 1].to;
        path.resize(cut);
        continue;
      }
      int &k = next[at];
      const int degree = static_cast<int>(adjacent_[at].size());
      while (k < degree &&
             !(edges_[adjacent_[at][k]].capacity > 0 && level[edges_[adjacent_[at][k]].to] == level[at] + 1))
        ++k;
      if (k < degree) {
        path.push_back(adjacent_[at][k]);
        at = edges_[path.back()].to;
      } else {
        level[at] = -1;
        if (path.empty())
          break;
        at = edges_[path.back() ^ 1].to;
        path.pop_back();
        ++next[at];
      }
    }
  }
  std::vector<bool> label(n - 2);
  for (int v = 2; v < n; ++v)
    label[v - 2] = level[v] < 0;
  return label;
}

} // namespace npuc
