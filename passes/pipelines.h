// The ordered lists of passes.
#pragma once

#include "compiler/pass/pass.h"
#include "compiler/pass/pass_manager.h"

namespace npuc {

// What npuc runs between import and tiling. See pipelines.cc for what holds where.
Pipeline DefaultPipeline(const PassOptions &options);

// The part of it that needs no target and changes no number but by folding: what --precision fp32, the reference, the
// calibrator and the bounds of the report work on.
Pipeline SimplifyPipeline();

} // namespace npuc
