// What to change in the model, flags or target, ranked by what it brings.
#pragma once

#include "backend/report/model_graph.h"
#include "backend/report/what_if.h"
#include "compiler/target/target.h"

namespace npuc::report {

// `advice` and `tried` of a report that has everything else. `work` bounds the compilations: about 10 at most.
void FillAdvice(const Target &target, const ModelGraph &graph, const TryFn &try_change, Report *r);

} // namespace npuc::report
