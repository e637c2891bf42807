// What npu-reduce works on: a graph of nodes that can be made smaller, whatever file it came from.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/status.h"

namespace npuc::reduce {

class Subject {
public:
  virtual ~Subject() = default;

  // Top-level nodes, in an order in which definitions come before uses; constants are not counted.
  virtual size_t num_nodes() const = 0;
  // The graph of these nodes alone: tensors whose producers go become inputs, tensors whose readers all go become
  // outputs. Null where that is no graph: nothing is left to compute, or a tensor's type is not known.
  virtual std::unique_ptr<Subject> Keep(const std::vector<bool> &keep) const = 0;

  // Other ways to make it smaller, each a small step, the most worthwhile ones first. A step gives null when it does
  // not apply. Only while the subject lives.
  using Step = std::function<std::unique_ptr<Subject>()>;
  virtual std::vector<Step> Steps() const = 0;

  // The file.
  virtual std::string Serialize() const = 0;
};

// An ONNX model, edited as the message that it is: no opset is adapted, no node renamed. External data are moved into
// the file. Types come from the model and from inference, which runs in a process of its own (the importer may be what
// is broken). Errors: E0101, E0201.
StatusOr<std::unique_ptr<Subject>> OpenOnnx(const std::string &path);
// IR text (docs/ir.md). Errors: E0101, E0210.
StatusOr<std::unique_ptr<Subject>> OpenIr(const std::string &path);

} // namespace npuc::reduce
