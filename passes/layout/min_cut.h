// Minimum cut between two labels: which side each variable takes so that the weights of the broken wishes are least.
#pragma once

#include <cstdint>
#include <vector>

namespace npuc {

// Variables 0 .. n-1 take label false or true.
class MinCut {
public:
  explicit MinCut(int variables = 0);
  int AddVariable();
  // Costs `weight` when from is false and to is true.
  void Penalise(int from, int to, int64_t weight);
  void Fix(int variable, bool label);
  // Labels of least total cost; of several, the one with the most variables true. Dinic's algorithm.
  std::vector<bool> Solve();

  static constexpr int64_t kNever = INT64_C(1) << 60;

private:
  struct Edge {
    int to;
    int64_t capacity;
  };
  void AddEdge(int from, int to, int64_t capacity);
  std::vector<Edge> edges_;                // 2k and 2k+1 are each other's reverse
  std::vector<std::vector<int>> adjacent_; // 0: source (false), 1: sink (true), 2 + variable
};

} // namespace npuc
