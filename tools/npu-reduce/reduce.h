// Delta debugging: the smallest subject that a predicate still accepts.
#pragma once

#include <functional>

#include "tools/npu-reduce/predicate.h"
#include "tools/npu-reduce/subject.h"

namespace npuc::reduce {

struct ReduceOptions {
  int jobs = 1;
  // Called with every better subject, in order. An error ends the search with it.
  std::function<Status(const Subject &)> on_better;
  std::function<void(std::string)> progress;
};

// Searches from `start`, which the predicate accepted. The result depends on the subject and the predicate only, not on
// jobs: candidates are judged in parallel, but the first accepted one in their order is taken.
StatusOr<std::unique_ptr<Subject>> Reduce(std::unique_ptr<Subject> start, Predicate &predicate,
                                          const ReduceOptions &options);

} // namespace npuc::reduce
