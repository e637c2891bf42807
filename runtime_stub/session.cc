// A session: binds memory, runs the steps in order. NPU steps execute commands in replay order; host steps evaluate
// their graph on views of the same memory and copy results to where they belong.
#include "runtime_stub/session.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "runtime_stub/checked.h"

namespace npuc::runtime {
namespace {

// Null when there is no memory.
std::shared_ptr<void> AllocateBytes(int64_t bytes) {
  const int64_t rounded = std::max<int64_t>(64, (bytes + 63) / 64 * 64);
  return std::shared_ptr<void>(std::aligned_alloc(64, rounded), std::free);
}
Status NoMemory(int64_t bytes, std::string_view what) {
  return Error("E0902", fmt::format("no memory for {} bytes of {}", bytes, what),
               "close other programs, or run the model on a machine with more memory");
}

// A copy of a value whose bytes belong to nobody but itself.
EvalValue OwnCopy(const EvalValue &v) {
  if (const Tensor *t = v.tensor()) {
    if (t->dtype() == DType::String)
      return v;
    if (t->is_splat())
      return t->Expand();
    Tensor copy = Tensor::Allocate(t->dtype(), t->dims());
    if (copy.num_stored_bytes())
      std::memcpy(copy.mutable_bytes(), t->bytes(), copy.num_stored_bytes());
    return copy;
  }
  EvalValue result = v;
  if (const EvalSequence *s = v.sequence()) {
    auto items = std::make_shared<EvalSequence>();
    for (const EvalValue &e : *s)
      items->push_back(OwnCopy(e));
    result.v = std::shared_ptr<const EvalSequence>(std::move(items));
  } else if (const auto *m = std::get_if<std::shared_ptr<const EvalMap>>(&v.v)) {
    auto map = std::make_shared<EvalMap>();
    map->keys = (*m)->keys;
    for (const EvalValue &e : (*m)->values)
      map->values.push_back(OwnCopy(e));
    result.v = std::shared_ptr<const EvalMap>(std::move(map));
  }
  return result;
}

} // namespace

Session::Session(std::shared_ptr<const Model> model, SessionOptions options)
    : model_(std::move(model)), options_(options), threads_(options.threads) {
  const container::ModelFile &f = model_->file();
  memory_.constants = model_->constants();
  owned_ = {AllocateBytes(f.arena_bytes), AllocateBytes(f.sram_bytes)};
  memory_.arena = {static_cast<uint8_t *>(owned_[0].get()), f.arena_bytes};
  memory_.sram = {static_cast<uint8_t *>(owned_[1].get()), f.sram_bytes};
  memory_.io.resize(f.inputs.size() + f.outputs.size());
  owned_.resize(2 + memory_.io.size());
  inputs_kept_.resize(f.inputs.size());
  slots_.resize(f.num_slots);
  interpreters_.resize(f.steps.size());
  captures_.resize(f.steps.size());
  for (const container::Capture &c : f.captures)
    if (c.step < f.steps.size())
      captures_[c.step].push_back(&c);
  if (options_.checked)
    checker_ = std::make_unique<Checker>(*model_);
}
Session::~Session() = default;

Status Session::BindInput(int index, const void *data, int64_t bytes) {
  const container::IoTensor &t = model_->inputs()[index];
  if (t.slot >= 0)
    return Error("E0702", fmt::format("input '{}' ({}) has no buffer of fixed size", t.name, t.type.ToString()),
                 "set it as a value");
  if (bytes != t.bytes)
    return Error("E0702",
                 fmt::format("input '{}' ({}) has {} bytes, the buffer {}", t.name, t.type.ToString(), t.bytes, bytes),
                 "give a buffer of the model's size");
  inputs_kept_[index] = {};
  memory_.io[index] = {static_cast<uint8_t *>(const_cast<void *>(data)), bytes};
  return OkStatus();
}

Status Session::BindOutput(int index, void *data, int64_t bytes) {
  const container::IoTensor &t = model_->outputs()[index];
  if (t.slot >= 0)
    return Error("E0702", fmt::format("output '{}' ({}) has no buffer of fixed size", t.name, t.type.ToString()),
                 "read it as a value");
  if (bytes != t.bytes)
    return Error("E0702",
                 fmt::format("output '{}' ({}) has {} bytes, the buffer {}", t.name, t.type.ToString(), t.bytes, bytes),
                 "give a buffer of the model's size");
  memory_.io[num_inputs() + index] = {static_cast<uint8_t *>(data), bytes};
  return OkStatus();
}

Status Session::SetInput(int index, EvalValue value) {
  const container::IoTensor &t = model_->inputs()[index];
  NPUC_RETURN_IF_ERROR(CheckValue(fmt::format("input '{}'", t.name), t.type, value));
  if (const Tensor *tensor = value.tensor(); tensor && tensor->is_splat())
    value = tensor->Expand();
  if (t.slot >= 0) {
    inputs_kept_[index] = std::move(value);
    return OkStatus();
  }
  if (t.type.layout() != Layout::RowMajor) {
    Tensor packed = Tensor::Allocate(DType::U8, {t.bytes});
    PackTensor(*value.tensor(), t.type, model_->target().C2(t.type.dtype()), packed.mutable_bytes());
    value = std::move(packed);
  }
  const Tensor kept = *value.tensor();
  if (kept.num_stored_bytes() != t.bytes)
    return Error("E0603", fmt::format("input '{}' ({}) is said to have {} bytes, not {}", t.name, t.type.ToString(),
                                      t.bytes, kept.num_stored_bytes()));
  memory_.io[index] = {const_cast<uint8_t *>(kept.bytes()), t.bytes};
  inputs_kept_[index] = std::move(value);
  return OkStatus();
}

EvalValue Session::Output(int index) const {
  const container::IoTensor &t = model_->outputs()[index];
  if (t.slot >= 0)
    return slots_[t.slot];
  const Image &io = memory_.io[num_inputs() + index];
  if (t.type.layout() != Layout::RowMajor)
    return UnpackTensor(io.data, t.type, model_->target().C2(t.type.dtype()));
  return Tensor::View(t.type.dtype(), t.type.shape().static_dims(), io.data, nullptr);
}

Status Session::Run() {
  const container::ModelFile &f = model_->file();
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const container::IoTensor &t = f.inputs[i];
    const bool optional = t.type.kind() == Type::Kind::Optional;
    if (t.slot >= 0 ? !inputs_kept_[i].has_value() && !optional : !memory_.io[i].data && t.bytes > 0)
      return Error("E0701", fmt::format("input '{}' ({}) is missing", t.name, t.type.ToString()),
                   "bind a buffer or give a value before running");
  }
  if (!memory_.arena.data || !memory_.sram.data)
    return NoMemory(f.arena_bytes + f.sram_bytes, "intermediate tensors");
  std::fill(slots_.begin(), slots_.end(), EvalValue());
  for (size_t i = 0; i < f.inputs.size(); ++i)
    if (f.inputs[i].slot >= 0)
      slots_[f.inputs[i].slot] = inputs_kept_[i];
  for (size_t i = 0; i < f.outputs.size(); ++i) {
    Image &io = memory_.io[f.inputs.size() + i];
    if (f.outputs[i].slot >= 0 || io.data)
      continue;
    std::shared_ptr<void> &own = owned_[2 + f.inputs.size() + i];
    own = AllocateBytes(f.outputs[i].bytes);
    if (!own)
      return NoMemory(f.outputs[i].bytes, fmt::format("output '{}'", f.outputs[i].name));
    io = {static_cast<uint8_t *>(own.get()), f.outputs[i].bytes};
  }
  if (checker_)
    checker_->Begin(memory_);
  step_seconds_.assign(f.steps.size(), 0);
  for (size_t i = 0; i < f.steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    NPUC_RETURN_IF_ERROR(std::holds_alternative<container::NpuStep>(f.steps[i]) ? RunNpu(i) : RunHost(i));
    step_seconds_[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (checker_)
    return checker_->End(memory_);
  return OkStatus();
}

Status Session::RunCaptures(size_t step, int command) {
  for (const container::Capture *c : captures_[step])
    if (c->command == command)
      NPUC_RETURN_IF_ERROR(capture_(*c, memory_));
  return OkStatus();
}

Status Session::RunNpu(size_t index) {
  const isa::Stream &stream = std::get<container::NpuStep>(model_->file().steps[index]).stream;
  const Model::Step &step = model_->steps()[index];
  const Target &target = model_->target();
  Context context{memory_,
                  {static_cast<int>(target.mxu.oc), static_cast<int>(target.C2(DType::I8)),
                   static_cast<int>(target.C2(DType::I16))},
                  &threads_,
                  options_.reference,
                  options_.checked,
                  &workspace_};
  const bool capturing = capture_ && !captures_[index].empty();
  if (checker_)
    checker_->BeginSegment();
  if (capturing)
    NPUC_RETURN_IF_ERROR(RunCaptures(index, -1));
  for (const uint32_t i : options_.eager ? step.eager_order : step.order) {
    const isa::Command &c = stream[i];
    Status status;
    if (checker_)
      status = checker_->Before(c, memory_);
    if (status.ok())
      status = Execute(c, context);
    if (status.ok() && checker_)
      status = checker_->After(c, memory_);
    if (!status.ok()) {
      const auto &layers = model_->file().layers;
      if (c.layer < layers.size())
        status = AtNode(status, layers[c.layer].name, layers[c.layer].op);
      return Prefix(status, fmt::format("step {}, command {} ({} {})", index, i, isa::Name(c.engine),
                                        isa::Name(isa::OpcodeOf(c))));
    }
    if (capturing)
      NPUC_RETURN_IF_ERROR(RunCaptures(index, static_cast<int>(i)));
  }
  return OkStatus();
}

Tensor Session::ViewOf(const container::HostBinding &b) const {
  return Tensor::View(b.type.dtype(), b.type.shape().static_dims(), memory_.At(b.address), nullptr);
}

Status Session::RunHost(size_t index) {
  const auto &host = std::get<container::HostStep>(model_->file().steps[index]);
  if (!interpreters_[index])
    interpreters_[index] = std::make_unique<Interpreter>(model_->steps()[index].module->main(), EvalOptions{&threads_});
  if (capture_)
    NPUC_RETURN_IF_ERROR(RunCaptures(index, -1));
  std::vector<EvalValue> inputs;
  for (const container::HostBinding &b : host.inputs) {
    if (b.slot < 0 && checker_)
      NPUC_RETURN_IF_ERROR(checker_->HostRead(b, memory_));
    inputs.push_back(b.slot >= 0 ? slots_[b.slot] : EvalValue(ViewOf(b)));
  }
  auto results = interpreters_[index]->Run(std::move(inputs));
  if (!results.ok())
    return results.status();
  // First values that stay values, then the copies into memory, which may reuse an input's bytes.
  for (size_t i = 0; i < host.outputs.size(); ++i)
    if (host.outputs[i].slot >= 0)
      slots_[host.outputs[i].slot] = OwnCopy((*results)[i]);
  for (size_t i = 0; i < host.outputs.size(); ++i) {
    const container::HostBinding &b = host.outputs[i];
    if (b.slot >= 0)
      continue;
    const Tensor *t = (*results)[i].tensor();
    const Dims dims = b.type.shape().static_dims();
    if (!t || t->dtype() != b.type.dtype() || t->dims() != llvm::ArrayRef<int64_t>(dims))
      return Error("E0703",
                   fmt::format("'{}' was compiled as {}, this run gives {}", b.name, b.type.ToString(),
                               t ? std::string(Name(t->dtype())) + ToString(t->dims()) : "no tensor"),
                   "the value of an input decides this shape: compile with --bind, or leave the shape free");
    const int64_t bytes = b.type.num_bytes();
    uint8_t *to = memory_.At(b.address);
    const Tensor plain = t->Expand();
    if (bytes)
      std::memmove(to, plain.bytes(), bytes);
    if (checker_)
      checker_->HostWrite(b);
  }
  if (capture_)
    NPUC_RETURN_IF_ERROR(RunCaptures(index, 0));
  return OkStatus();
}

} // namespace npuc::runtime
