// The C interface over Model and Session. Handles own shared pointers, so a session keeps its model alive.
#include "runtime_stub/npu_runtime.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#include "runtime_stub/profile.h"
#include "runtime_stub/session.h"

using npuc::Status;
using npuc::Type;
using npuc::runtime::Model;
using npuc::runtime::Session;

namespace {

struct TensorInfo {
  std::string type;
  std::vector<int64_t> dims;
};
struct Modelled {
  std::once_flag once;
  npuc::runtime::Profile profile;
};

thread_local std::string last_error;

npu_status Report(const Status &s) {
  if (s.ok())
    return NPU_OK;
  const npuc::Diagnostic d = npuc::FromStatus(s);
  last_error = npuc::Render(d);
  const int code = d.code.size() > 1 ? std::atoi(d.code.c_str() + 1) : 0;
  return code > 0 ? code : 901;
}
npu_status Invalid(std::string message) {
  last_error = std::move(message);
  return NPU_INVALID_ARGUMENT;
}

} // namespace

struct npu_model {
  std::shared_ptr<const Model> model;
  std::vector<TensorInfo> inputs, outputs;
  mutable Modelled modelled;

  const npuc::runtime::Profile &profile() const {
    std::call_once(modelled.once, [&] { modelled.profile = npuc::runtime::ModelledProfile(*model); });
    return modelled.profile;
  }
};
struct npu_session {
  std::unique_ptr<Session> session;
  // What the getters hand out, kept until the next run.
  mutable std::deque<npuc::EvalValue> results;
  mutable std::deque<npuc::Dims> dims;
};

namespace {

std::vector<TensorInfo> Describe(const std::vector<npuc::container::IoTensor> &tensors) {
  std::vector<TensorInfo> infos;
  for (const auto &t : tensors) {
    TensorInfo i;
    i.type = t.type.ToString();
    if (t.type.is_tensor() && t.type.shape().ranked())
      for (const npuc::Dim &d : t.type.shape().dims())
        i.dims.push_back(d.is_static() ? d.value() : -1);
    infos.push_back(std::move(i));
  }
  return infos;
}

npu_status Wrap(npuc::StatusOr<std::shared_ptr<const Model>> loaded, npu_model **out) {
  if (!loaded.ok())
    return Report(loaded.status());
  auto *m = new npu_model();
  m->model = *std::move(loaded);
  m->inputs = Describe(m->model->inputs());
  m->outputs = Describe(m->model->outputs());
  *out = m;
  return NPU_OK;
}

npu_status Info(const npu_model *m, const std::vector<npuc::container::IoTensor> &tensors,
                const std::vector<TensorInfo> &infos, size_t index, npu_tensor_info *out) {
  if (!out)
    return Invalid("info is NULL");
  if (index >= tensors.size())
    return Invalid(fmt::format("index {} of {} tensors", index, tensors.size()));
  const auto &t = tensors[index];
  *out = {};
  out->name = t.name.c_str();
  out->type = infos[index].type.c_str();
  out->kind = t.type.kind() == Type::Kind::Sequence   ? NPU_KIND_SEQUENCE
              : t.type.kind() == Type::Kind::Optional ? NPU_KIND_OPTIONAL
              : t.type.kind() == Type::Kind::Map      ? NPU_KIND_MAP
                                                      : NPU_KIND_TENSOR;
  out->rank = -1;
  out->axis = -1;
  if (!t.type.is_tensor())
    return NPU_OK;
  out->dtype = static_cast<npu_dtype>(t.type.dtype());
  out->layout = static_cast<npu_layout>(t.type.layout());
  if (t.type.layout() == npuc::Layout::NC1HWC2)
    out->block = static_cast<int32_t>(m->model->target().C2(t.type.dtype()));
  if (t.type.shape().ranked())
    out->rank = static_cast<int32_t>(infos[index].dims.size());
  out->dims = infos[index].dims.data();
  out->bytes = t.slot >= 0 ? 0 : static_cast<size_t>(t.bytes);
  if (t.type.is_quantized()) {
    const npuc::QuantParams &q = *t.type.quant();
    out->num_scales = static_cast<int32_t>(q.scales.size());
    out->scales = q.scales.data();
    out->zero_points = q.zero_points.data();
    out->axis = q.axis;
  }
  return NPU_OK;
}

int Find(const std::vector<npuc::container::IoTensor> &tensors, const char *name) {
  for (size_t i = 0; name && i < tensors.size(); ++i)
    if (tensors[i].name == name)
      return static_cast<int>(i);
  return -1;
}

npu_status CheckIndex(const npu_session *s, size_t index, bool input) {
  if (!s)
    return Invalid("session is NULL");
  const size_t count = input ? s->session->num_inputs() : s->session->num_outputs();
  return index < count ? NPU_OK : Invalid(fmt::format("index {} of {} {}", index, count, input ? "inputs" : "outputs"));
}

// A tensor of the caller's bytes, copied.
npu_status Copy(npu_dtype dtype, int32_t rank, const int64_t *dims, const void *data, npuc::Tensor *out) {
  const auto t = static_cast<npuc::DType>(dtype);
  if (dtype <= 0 || dtype >= npuc::kNumDTypes || npuc::ByteSize(t) == 0)
    return Invalid(fmt::format("element type {} is not a number's", static_cast<int>(dtype)));
  if (rank < 0 || (rank > 0 && !dims))
    return Invalid("dims are missing");
  const llvm::ArrayRef<int64_t> shape(dims, static_cast<size_t>(rank));
  const auto count = npuc::CheckedNumElements(shape);
  if (!count)
    return Invalid("dims are negative or too large");
  if (*count > 0 && !data)
    return Invalid("data is NULL");
  npuc::Tensor tensor = npuc::Tensor::Allocate(t, shape);
  if (*count)
    std::memcpy(tensor.mutable_bytes(), data, *count * npuc::ByteSize(t));
  *out = std::move(tensor);
  return NPU_OK;
}

} // namespace

extern "C" {

const char *npu_last_error(void) {
  return last_error.c_str();
}
const char *npu_version(void) {
  return NPUC_VERSION;
}

npu_status npu_model_load(const char *path, npu_model **model) {
  if (!path || !model)
    return Invalid("path or model is NULL");
  return Wrap(Model::Load(path), model);
}
npu_status npu_model_load_memory(const void *data, size_t bytes, npu_model **model) {
  if (!data || !model)
    return Invalid("data or model is NULL");
  return Wrap(Model::FromMemory(data, bytes), model);
}
void npu_model_free(npu_model *model) {
  delete model;
}

size_t npu_model_num_inputs(const npu_model *model) {
  return model->model->inputs().size();
}
size_t npu_model_num_outputs(const npu_model *model) {
  return model->model->outputs().size();
}
npu_status npu_model_input_info(const npu_model *model, size_t index, npu_tensor_info *info) {
  if (!model)
    return Invalid("model is NULL");
  return Info(model, model->model->inputs(), model->inputs, index, info);
}
npu_status npu_model_output_info(const npu_model *model, size_t index, npu_tensor_info *info) {
  if (!model)
    return Invalid("model is NULL");
  return Info(model, model->model->outputs(), model->outputs, index, info);
}
int npu_model_find_input(const npu_model *model, const char *name) {
  return Find(model->model->inputs(), name);
}
int npu_model_find_output(const npu_model *model, const char *name) {
  return Find(model->model->outputs(), name);
}
const char *npu_model_target(const npu_model *model) {
  return model->model->file().target_name.c_str();
}
const char *npu_model_metadata(const npu_model *model, const char *key) {
  for (const auto &[k, v] : model->model->file().metadata)
    if (key && k == key)
      return v.c_str();
  return nullptr;
}

npu_status npu_session_create(const npu_model *model, const npu_session_options *options, npu_session **session) {
  if (!model || !session)
    return Invalid("model or session is NULL");
  npuc::runtime::SessionOptions o;
  if (options) {
    if (options->threads < 0)
      return Invalid(fmt::format("{} threads", options->threads));
    o.threads = options->threads;
    o.checked = options->checked != 0;
  }
  auto *s = new npu_session();
  s->session = std::make_unique<Session>(model->model, o);
  *session = s;
  return NPU_OK;
}
void npu_session_free(npu_session *session) {
  delete session;
}

npu_status npu_session_bind_input(npu_session *session, size_t index, const void *data, size_t bytes) {
  if (npu_status s = CheckIndex(session, index, true))
    return s;
  if (!data && bytes)
    return Invalid("data is NULL");
  return Report(session->session->BindInput(static_cast<int>(index), data, static_cast<int64_t>(bytes)));
}
npu_status npu_session_bind_output(npu_session *session, size_t index, void *data, size_t bytes) {
  if (npu_status s = CheckIndex(session, index, false))
    return s;
  if (!data && bytes)
    return Invalid("data is NULL");
  return Report(session->session->BindOutput(static_cast<int>(index), data, static_cast<int64_t>(bytes)));
}
npu_status npu_session_set_input(npu_session *session, size_t index, npu_dtype dtype, int32_t rank, const int64_t *dims,
                                 const void *data) {
  if (npu_status s = CheckIndex(session, index, true))
    return s;
  npuc::Tensor tensor;
  if (npu_status s = Copy(dtype, rank, dims, data, &tensor))
    return s;
  return Report(session->session->SetInput(static_cast<int>(index), std::move(tensor)));
}
npu_status npu_session_set_input_strings(npu_session *session, size_t index, int32_t rank, const int64_t *dims,
                                         const char *const *values) {
  if (npu_status s = CheckIndex(session, index, true))
    return s;
  if (rank < 0 || (rank > 0 && !dims))
    return Invalid("dims are missing");
  const llvm::ArrayRef<int64_t> shape(dims, static_cast<size_t>(rank));
  const auto count = npuc::CheckedNumElements(shape);
  if (!count || (*count > 0 && !values))
    return Invalid("dims are wrong or values is NULL");
  return Report(
      session->session->SetInput(static_cast<int>(index), npuc::Tensor::Strings(shape, {values, values + *count})));
}
npu_status npu_session_set_input_sequence(npu_session *session, size_t index, const npu_tensor *elements,
                                          size_t count) {
  if (npu_status s = CheckIndex(session, index, true))
    return s;
  if (count && !elements)
    return Invalid("elements is NULL");
  auto items = std::make_shared<npuc::EvalSequence>();
  for (size_t i = 0; i < count; ++i) {
    npuc::Tensor tensor;
    if (npu_status s = Copy(elements[i].dtype, elements[i].rank, elements[i].dims, elements[i].data, &tensor))
      return s;
    items->emplace_back(std::move(tensor));
  }
  npuc::EvalValue value;
  value.v = std::shared_ptr<const npuc::EvalSequence>(std::move(items));
  return Report(session->session->SetInput(static_cast<int>(index), std::move(value)));
}

npu_status npu_session_run(npu_session *session) {
  if (!session)
    return Invalid("session is NULL");
  session->results.clear();
  session->dims.clear();
  return Report(session->session->Run());
}

size_t npu_session_output_length(const npu_session *session, size_t index) {
  if (CheckIndex(session, index, false))
    return 0;
  const npuc::EvalValue v = session->session->Output(static_cast<int>(index));
  return v.sequence() ? v.sequence()->size() : v.tensor() ? 1 : 0;
}
npu_status npu_session_output(const npu_session *session, size_t index, size_t element, npu_tensor *tensor) {
  if (npu_status s = CheckIndex(session, index, false))
    return s;
  if (!tensor)
    return Invalid("tensor is NULL");
  npuc::EvalValue v = session->session->Output(static_cast<int>(index));
  if (const npuc::EvalSequence *s = v.sequence()) {
    if (element >= s->size())
      return Invalid(fmt::format("element {} of {}", element, s->size()));
    v = npuc::EvalValue((*s)[element]);
  } else if (element > 0) {
    return Invalid(fmt::format("element {} of a tensor", element));
  }
  if (!v.tensor())
    return Invalid("the output holds no tensor");
  npuc::EvalValue &kept =
      session->results.emplace_back(v.tensor()->is_splat() ? npuc::EvalValue(v.tensor()->Expand()) : std::move(v));
  const npuc::Tensor &t = *kept.tensor();
  npuc::Dims &dims = session->dims.emplace_back(t.dims().begin(), t.dims().end());
  *tensor = {static_cast<npu_dtype>(t.dtype()), static_cast<int32_t>(dims.size()), dims.data(),
             t.dtype() == npuc::DType::String ? nullptr : t.bytes(), static_cast<size_t>(t.num_stored_bytes())};
  return NPU_OK;
}
const char *npu_session_output_string(const npu_session *session, size_t index, size_t i) {
  if (CheckIndex(session, index, false))
    return nullptr;
  const npuc::EvalValue v = session->session->Output(static_cast<int>(index));
  if (!v.tensor() || v.tensor()->dtype() != npuc::DType::String || i >= v.tensor()->strings().size())
    return nullptr;
  return v.tensor()->strings()[i].c_str(); // the session's slot keeps the strings
}

npu_status npu_model_profile(const npu_model *model, npu_profile *profile) {
  if (!model || !profile)
    return Invalid("model or profile is NULL");
  const npuc::runtime::Profile &p = model->profile();
  *profile = {};
  profile->cycles = p.cycles;
  profile->milliseconds = p.milliseconds;
  for (int e = 0; e < 4; ++e)
    profile->busy[e] = p.busy_share[e];
  profile->ddr_read_bytes = p.ddr_read_bytes;
  profile->ddr_write_bytes = p.ddr_write_bytes;
  profile->macs = p.macs;
  profile->npu_steps = p.npu_steps;
  profile->host_steps = p.host_steps;
  profile->commands = p.commands;
  return NPU_OK;
}
size_t npu_model_num_layers(const npu_model *model) {
  return model->model->file().layers.size();
}
npu_status npu_model_layer_profile(const npu_model *model, size_t layer, npu_layer_profile *profile) {
  if (!model || !profile)
    return Invalid("model or profile is NULL");
  const npuc::runtime::Profile &p = model->profile();
  if (layer >= p.layers.size())
    return Invalid(fmt::format("layer {} of {}", layer, p.layers.size()));
  const auto &l = p.layers[layer];
  *profile = {};
  profile->name = model->model->file().layers[layer].name.c_str();
  profile->op = model->model->file().layers[layer].op.c_str();
  profile->cycles = p.layer_cycles[layer];
  for (int e = 0; e < 4; ++e)
    profile->busy[e] = static_cast<double>(l.busy[e]) / npuc::timing::kUnitsPerCycle;
  profile->ddr_read_bytes = l.ddr_read_bytes;
  profile->ddr_write_bytes = l.ddr_write_bytes;
  profile->macs = l.macs;
  profile->commands = l.commands;
  return NPU_OK;
}
double npu_session_host_seconds(const npu_session *session) {
  double sum = 0;
  const auto &steps = session->session->model().file().steps;
  const auto &seconds = session->session->step_seconds();
  for (size_t i = 0; i < seconds.size(); ++i)
    if (std::holds_alternative<npuc::container::HostStep>(steps[i]))
      sum += seconds[i];
  return sum;
}

} // extern "C"
