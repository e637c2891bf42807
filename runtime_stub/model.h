// A loaded and verified model.bin: immutable, shared by any number of sessions and threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/container/model_file.h"
#include "backend/timing/timing.h"
#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/target.h"
#include "runtime_stub/machine.h"

namespace npuc::runtime {

class Model {
public:
  // Reads, checks and verifies everything before anything can run. Errors E0101, E06xx; with `diagnostics` every
  // violation is in it and the status is AlreadyReported(), else the first is the status.
  static StatusOr<std::shared_ptr<const Model>> Load(const std::string &path, DiagnosticEngine *diagnostics = nullptr);
  // A model file in memory; `bytes` are copied.
  static StatusOr<std::shared_ptr<const Model>> FromMemory(const void *data, size_t bytes,
                                                           DiagnosticEngine *diagnostics = nullptr);
  // From its parts, verified all the same (tests, the compiler's accuracy check). `name` is for messages.
  static StatusOr<std::shared_ptr<const Model>> FromFile(container::ModelFile file, std::string name,
                                                         DiagnosticEngine *diagnostics = nullptr);
  ~Model();

  const std::string &name() const { return name_; }
  const container::ModelFile &file() const { return file_; }
  const Target &target() const { return target_; }
  const std::vector<container::IoTensor> &inputs() const { return file_.inputs; }
  const std::vector<container::IoTensor> &outputs() const { return file_.outputs; }
  Image constants() const { return constants_; }

  // Per step, what loading worked out.
  struct Step {
    std::vector<uint32_t> order, eager_order; // NPU: see ReplayOrder
    std::unique_ptr<Module> module;           // host
  };
  const std::vector<Step> &steps() const { return steps_; }

  // Modelled time of the NPU steps, one per step (empty for host steps). Computed once, on first use.
  const std::vector<timing::Timeline> &timelines() const;

private:
  Model() = default;
  std::string name_;
  container::ModelFile file_;
  Target target_;
  Image constants_;
  std::shared_ptr<void> gathered_; // const region when the file came in several pieces
  std::vector<Step> steps_;
  mutable std::once_flag timed_;
  mutable std::vector<timing::Timeline> timelines_;
};

} // namespace npuc::runtime
