// The ordered lists of passes.
#pragma once

#include "compiler/pass/pass.h"
#include "compiler/pass/pass_manager.h"

namespace npuc {

// What npuc runs between import and tiling. See pipelines.cc for what holds where.
Pipeline DefaultPipeline(const PassOptions &options);

// The part of it that makes the float graph whose values are calibrated: the target has no say in it
// (but for recurrent layers, which are unrolled where it can run their parts), so statistics
// serve every target. Samples run through the module as it is behind its last stage.
Pipeline CalibrationPipeline(const PassOptions &options);

// The part of that that needs no target and changes no number but by folding: what --precision fp32, the reference
// and the bounds of the report work on.
Pipeline SimplifyPipeline();

} // namespace npuc
