// Two kinds of moves, alternated until neither finds anything:
//
//   nodes   chunks of nodes are taken out, the last ones first: halves, quarters, ... single nodes (Zeller and
//           Hildebrandt's ddmin, complements only, as in other reducers). A chunk in the middle cuts the graph on both
//           sides, so this alone finds sub-graphs, drops outputs and shortens both ends.
//   steps   what the subject offers: outputs dropped, nodes bypassed or replaced by constants, attributes and operands
//           left out, extents made small.
//
// The end is a subject of which no single node can be taken out and no single step taken. Candidates that were refused
// before are not judged again. Cost: about n log n runs of the predicate for n nodes when little remains.
#include "tools/npu-reduce/reduce.h"

#include <algorithm>
#include <set>

#include "compiler/support/hash.h"

namespace npuc::reduce {
namespace {

class Search {
public:
  Search(std::unique_ptr<Subject> start, Predicate &predicate, const ReduceOptions &options)
      : best_(std::move(start)), predicate_(predicate), options_(options) {
    refused_.insert(Key(best_->Serialize())); // no change is no progress
  }

  Status Run() {
    for (bool changed = true; changed;) {
      NPUC_ASSIGN_OR_RETURN(const bool nodes, TakeNodes());
      NPUC_ASSIGN_OR_RETURN(const bool steps, TakeSteps());
      changed = nodes || steps;
    }
    return OkStatus();
  }
  std::unique_ptr<Subject> Best() { return std::move(best_); }

private:
  using Key128 = std::pair<uint64_t, uint64_t>;
  static Key128 Key(const std::string &bytes) { return {Xxh3(bytes), Xxh3(bytes.data(), bytes.size(), 1)}; }

  // Makes candidate 0, 1, ... and judges them until one is accepted, which becomes the best: its number; n when none
  // is.
  StatusOr<size_t> FirstOf(size_t n, const std::function<std::unique_ptr<Subject>(size_t)> &make) {
    size_t next = 0;
    while (next < n) {
      std::vector<std::unique_ptr<Subject>> subjects;
      std::vector<std::string> bytes;
      std::vector<size_t> number;
      for (; next < n && static_cast<int>(subjects.size()) < options_.jobs; ++next) {
        std::unique_ptr<Subject> s = make(next);
        if (!s)
          continue;
        std::string text = s->Serialize();
        if (!refused_.insert(Key(text)).second)
          continue;
        subjects.push_back(std::move(s));
        bytes.push_back(std::move(text));
        number.push_back(next);
      }
      const auto verdicts = predicate_.Judge(bytes);
      if (options_.progress)
        options_.progress(fmt::format("{} nodes, {} runs", best_->num_nodes(), predicate_.runs()));
      for (size_t i = 0; i < verdicts.size(); ++i) {
        if (verdicts[i] != Predicate::Verdict::Interesting)
          continue;
        for (size_t later = i + 1; later < verdicts.size(); ++later) // they may come again, from the new best
          if (verdicts[later] == Predicate::Verdict::Interesting)
            refused_.erase(Key(bytes[later]));
        best_ = std::move(subjects[i]);
        if (options_.on_better)
          NPUC_RETURN_IF_ERROR(options_.on_better(*best_));
        return number[i];
      }
    }
    return n;
  }

  StatusOr<bool> TakeNodes() {
    bool any = false;
    for (size_t chunk = std::max<size_t>(1, best_->num_nodes() / 2);; chunk /= 2) {
      // Chunks [begin, end) that end at `end`, end - chunk, ...
      for (size_t end = best_->num_nodes(); end > 0;) {
        const size_t n = (end + chunk - 1) / chunk;
        auto range = [&](size_t k) {
          const size_t stop = end - k * chunk;
          return std::pair(stop > chunk ? stop - chunk : 0, stop);
        };
        const size_t before = best_->num_nodes();
        NPUC_ASSIGN_OR_RETURN(const size_t found, FirstOf(n, [&](size_t k) {
                                const auto [begin, stop] = range(k);
                                std::vector<bool> keep(before, true);
                                std::fill(keep.begin() + static_cast<std::ptrdiff_t>(begin),
                                          keep.begin() + static_cast<std::ptrdiff_t>(stop), false);
                                return best_->Keep(keep);
                              }));
        if (found == n)
          break;
        any = true;
        end = std::min(range(found).first, best_->num_nodes());
      }
      if (chunk == 1)
        return any;
    }
  }

  StatusOr<bool> TakeSteps() {
    bool any = false;
    size_t at = 0;
    for (std::vector<Subject::Step> steps = best_->Steps(); at < steps.size(); steps = best_->Steps()) {
      NPUC_ASSIGN_OR_RETURN(const size_t found, FirstOf(steps.size() - at, [&](size_t k) { return steps[at + k](); }));
      if (at + found == steps.size())
        break;
      any = true;
      at += found; // the list has moved up
    }
    return any;
  }

  std::unique_ptr<Subject> best_;
  Predicate &predicate_;
  const ReduceOptions &options_;
  std::set<Key128> refused_;
};

} // namespace

StatusOr<std::unique_ptr<Subject>> Reduce(std::unique_ptr<Subject> start, Predicate &predicate,
                                          const ReduceOptions &options) {
  Search search(std::move(start), predicate, options);
  NPUC_RETURN_IF_ERROR(search.Run());
  return search.Best();
}

} // namespace npuc::reduce
