// What would help, computed from the report itself.
#pragma once

#include "backend/report/report.h"
#include "compiler/target/target.h"

namespace npuc::report {

// Fills `advice`, the most promising first. Only what figures of this compilation show.
void FillAdvice(const Target &target, Report *r);

} // namespace npuc::report
