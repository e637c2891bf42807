// What compilation and calibration begin with; internal to the driver.
#pragma once

#include <memory>

#include "compiler/driver/options.h"
#include "compiler/pass/pass_manager.h"

namespace npuc {

// `copies`: see ImportOptions.
StatusOr<std::unique_ptr<Module>> ImportFor(const CompilerOptions &options, DiagnosticEngine &diagnostics,
                                            std::shared_ptr<std::map<uint64_t, Tensor>> copies = nullptr);
PassManagerOptions ManagerOptions(const CompilerOptions &options, const Target &target);

} // namespace npuc
