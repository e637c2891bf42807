#include "compiler/support/delta.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace npuc {
namespace {

using Set = std::vector<size_t>;

Set Without(const Set &all, size_t begin, size_t end) {
  Set out(all.begin(), all.begin() + static_cast<ptrdiff_t>(begin));
  out.insert(out.end(), all.begin() + static_cast<ptrdiff_t>(end), all.end());
  return out;
}

} // namespace

DeltaResult DeltaMinimise(size_t n, const std::function<bool(const Set &)> &interesting, const DeltaOptions &options) {
  DeltaResult result;
  result.kept.resize(n);
  std::iota(result.kept.begin(), result.kept.end(), size_t{0});
  std::map<Set, bool> tried;
  bool exhausted = false;
  const auto test = [&](const Set &set) {
    if (const auto it = tried.find(set); it != tried.end())
      return it->second;
    if (result.tests >= options.max_tests) {
      exhausted = true;
      return false;
    }
    ++result.tests;
    return tried[set] = interesting(set);
  };

  if (!test(result.kept)) {
    result.minimal = false;
    return result;
  }
  if (n && test({})) {
    result.kept.clear();
    return result;
  }
  size_t pieces = 2;
  while (result.kept.size() >= 2 && !exhausted) {
    const size_t size = result.kept.size();
    pieces = std::min(pieces, size);
    const auto edge = [&](size_t i) { return i * size / pieces; };
    bool reduced = false;
    for (size_t i = 0; i < pieces && !reduced; ++i) { // one piece alone
      const Set piece(result.kept.begin() + static_cast<ptrdiff_t>(edge(i)),
                      result.kept.begin() + static_cast<ptrdiff_t>(edge(i + 1)));
      if (piece.size() < size && test(piece)) {
        result.kept = piece;
        pieces = 2;
        reduced = true;
      }
    }
    for (size_t i = 0; i < pieces && !reduced; ++i) { // all but one piece
      Set rest = Without(result.kept, edge(i), edge(i + 1));
      if (pieces > 2 && test(rest)) {
        result.kept = std::move(rest);
        pieces = std::max<size_t>(pieces - 1, 2);
        reduced = true;
      }
    }
    if (!reduced) {
      if (pieces == size)
        break;
      pieces = std::min(2 * pieces, size);
    }
  }
  result.minimal = !exhausted;
  return result;
}

size_t FirstBad(size_t n, const std::function<bool(size_t)> &bad) {
  if (!bad(n))
    return n + 1;
  size_t good_below = 0, known_bad = n; // everything below good_below is good
  while (good_below < known_bad) {
    const size_t middle = good_below + (known_bad - good_below) / 2;
    if (bad(middle))
      known_bad = middle;
    else
      good_below = middle + 1;
  }
  return known_bad;
}

} // namespace npuc
