// One execution context of a model: its arena and SRAM, its bound buffers, its thread pool. Not for use from several
// threads at once; sessions of one model are independent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/interp/interpreter.h"
#include "runtime_stub/model.h"

namespace npuc::runtime {

class Checker;

struct SessionOptions {
  int threads = 0; // 0: the machine's processors
  bool checked =
      false; // uninitialised reads, stray writes, indices outside tables (races and deadlocks are refused by Load)
  bool reference = false; // element by element, slow: for tests
  bool eager = false;     // another legal order of the queues, for tests
};

class Session {
public:
  explicit Session(std::shared_ptr<const Model> model, SessionOptions options = {});
  ~Session();

  const Model &model() const { return *model_; }
  int num_inputs() const { return static_cast<int>(model_->inputs().size()); }
  int num_outputs() const { return static_cast<int>(model_->outputs().size()); }

  // The caller's buffer is used in place, for every Run until it is bound anew: packed, of the tensor's dtype, layout
  // and dims. E0702 when `bytes` differs from IoTensor::bytes or the value is not a static tensor. An unaligned buffer
  // is allowed. Buffers may not overlap.
  Status BindInput(int index, const void *data, int64_t bytes);
  Status BindOutput(int index, void *data, int64_t bytes);
  // An input as a value. Static tensor: its bytes are used in place (kept alive), row-major only, dtype and dims must
  // equal. Else: any value that fits the type. E0702.
  Status SetInput(int index, EvalValue value);

  // E0701: an input has neither buffer nor value. E0902: no memory. E0703 and errors of host operators name the ONNX
  // node.
  Status Run();

  // After Run. A static tensor: a view of the output's buffer, valid until the next Run (its own bytes are in the
  // output's layout); else the value itself.
  EvalValue Output(int index) const;

  // Called with every tensor of ModelFile::captures as it becomes complete, while its bytes are there. Null: off.
  using CaptureFn = std::function<Status(const container::Capture &, const Memory &)>;
  void set_capture(CaptureFn fn) { capture_ = std::move(fn); }

  // What the last Run took on this machine, in seconds, per step.
  const std::vector<double> &step_seconds() const { return step_seconds_; }

private:
  Status RunNpu(size_t step);
  Status RunHost(size_t step);
  Status RunCaptures(size_t step, int command);
  Tensor ViewOf(const container::HostBinding &b) const;

  std::shared_ptr<const Model> model_;
  SessionOptions options_;
  ThreadPool threads_;
  Memory memory_;
  std::vector<std::shared_ptr<void>> owned_; // arena, SRAM, outputs of our own
  std::vector<EvalValue> inputs_kept_, slots_;
  Workspace workspace_;
  std::vector<std::unique_ptr<Interpreter>> interpreters_; // per host step
  std::unique_ptr<Checker> checker_;
  CaptureFn capture_;
  std::vector<std::vector<const container::Capture *>> captures_; // per step, by command
  std::vector<double> step_seconds_;
};

// Bytes of a static tensor in its layout (blocks padded with the type's zero), from and to row-major logical elements.
// `c2`: Target::C2 of its dtype.
int64_t PackedBytes(const Type &type, int64_t c2);
void PackTensor(const Tensor &t, const Type &type, int64_t c2, uint8_t *out);
Tensor UnpackTensor(const uint8_t *data, const Type &type, int64_t c2);
// The elements of a view as a dense tensor of the type's logical dims, for captures (dims N, C, H, W or coalesced by
// ViewOf's rules).
Tensor TensorOfView(const isa::View &v, const Memory &m, const Type &type);

// "f32[1,3,224,224]" against a given value: OK, or E0702 "`what` is ..., given was ...".
Status CheckValue(const std::string &what, const Type &wanted, const EvalValue &value);

} // namespace npuc::runtime
