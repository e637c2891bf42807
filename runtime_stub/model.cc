// Loading: container, const region, target, host steps' IR, verification, replay orders. All of it happens here, once;
// sessions only run.
#include "runtime_stub/model.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "backend/verify/verify.h"

namespace npuc::runtime {
namespace {

Status Fail(const Status &status, const std::string &name, DiagnosticEngine *diagnostics) {
  if (!diagnostics)
    return AtFile(status, name);
  diagnostics->ReportStatus(AtFile(status, name));
  return AlreadyReported();
}

} // namespace

Model::~Model() = default;

StatusOr<std::shared_ptr<const Model>> Model::Load(const std::string &path, DiagnosticEngine *diagnostics) {
  auto file = container::ReadModelFile(path);
  if (!file.ok())
    return Fail(file.status(), path, diagnostics);
  return FromFile(*std::move(file), path, diagnostics);
}

StatusOr<std::shared_ptr<const Model>> Model::FromMemory(const void *data, size_t bytes,
                                                         DiagnosticEngine *diagnostics) {
  // The container is read by mapping; an anonymous file gives memory a name to map.
  const int fd = memfd_create("npuc-model", MFD_CLOEXEC);
  if (fd < 0)
    return Fail(Error("E0101", fmt::format("no memory for a model of {} bytes: {}", bytes, std::strerror(errno))),
                "<memory>", diagnostics);
  const char *p = static_cast<const char *>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = write(fd, p + done, bytes - done);
    if (n <= 0) {
      close(fd);
      return Fail(Error("E0101", fmt::format("no memory for a model of {} bytes", bytes)), "<memory>", diagnostics);
    }
    done += static_cast<size_t>(n);
  }
  auto file = container::ReadModelFile(fmt::format("/proc/self/fd/{}", fd));
  close(fd); // the mapping, if there is one, holds the file
  if (!file.ok())
    return Fail(file.status(), "<memory>", diagnostics);
  return FromFile(*std::move(file), "<memory>", diagnostics);
}

StatusOr<std::shared_ptr<const Model>> Model::FromFile(container::ModelFile file, std::string name,
                                                       DiagnosticEngine *diagnostics) {
  std::shared_ptr<Model> m(new Model());
  m->name_ = std::move(name);
  m->file_ = std::move(file);
  container::ModelFile &f = m->file_;

  auto target = Target::FromText(f.target_text, "the embedded target description");
  if (!target.ok())
    return Fail(Error("E0603", "the embedded target description is damaged: " + std::string(Message(target.status()))),
                m->name_, diagnostics);
  m->target_ = *std::move(target);

  if (f.const_pieces.size() == 1 && f.const_pieces[0].data && f.const_pieces[0].offset == 0 &&
      f.const_pieces[0].bytes == f.const_bytes) {
    m->constants_ = {const_cast<uint8_t *>(f.const_pieces[0].data), f.const_bytes};
  } else if (f.const_bytes > 0) {
    uint8_t *all = static_cast<uint8_t *>(std::aligned_alloc(64, (f.const_bytes + 63) / 64 * 64));
    if (!all)
      return Fail(Error("E0902", fmt::format("no memory for {} bytes of constants", f.const_bytes)), m->name_,
                  diagnostics);
    m->gathered_ = std::shared_ptr<void>(all, std::free);
    std::memset(all, 0, f.const_bytes);
    for (const auto &p : f.const_pieces)
      p.CopyTo(all + p.offset);
    m->constants_ = {all, f.const_bytes};
  }

  const std::vector<verify::Finding> findings = verify::VerifyModel(f);
  if (!findings.empty()) {
    if (!diagnostics)
      return AtFile(verify::ToStatus(findings), m->name_);
    for (const verify::Finding &found : findings)
      diagnostics->ReportStatus(AtFile(Error(found.code, found.text), m->name_));
    return AlreadyReported();
  }

  const Image constants = m->constants_;
  // Constants of host steps point into the const region; this keeps it.
  std::shared_ptr<const void> owner = m->gathered_;
  if (!owner && !f.const_pieces.empty())
    owner = f.const_pieces[0].owner;
  const ExternalReader reader = [constants, owner](ExternalRange r) -> StatusOr<ExternalData> {
    if (r.offset < 0 || r.bytes < 0 || r.offset > constants.bytes || r.bytes > constants.bytes - r.offset)
      return Error("E0603", fmt::format("constant at bytes {} to {} lies outside the const section of {} bytes",
                                        r.offset, r.offset + r.bytes, constants.bytes));
    return ExternalData{constants.data + r.offset, owner};
  };
  for (size_t i = 0; i < f.steps.size(); ++i) {
    Step &step = m->steps_.emplace_back();
    if (const auto *npu = std::get_if<container::NpuStep>(&f.steps[i])) {
      for (const bool eager : {false, true}) {
        auto order = ReplayOrder(npu->stream, eager);
        if (!order.ok())
          return Fail(Prefix(order.status(), fmt::format("step {}", i)), m->name_, diagnostics);
        (eager ? step.eager_order : step.order) = *std::move(order);
      }
      continue;
    }
    const auto &host = std::get<container::HostStep>(f.steps[i]);
    auto module = ParseModule(host.ir, fmt::format("{}: step {}", m->name_, i), reader);
    if (!module.ok())
      return Fail(Error("E0603", fmt::format("the IR of host step {} is damaged: {}", i, Message(module.status()))),
                  m->name_, diagnostics);
    step.module = *std::move(module);
    if (Status s = Verify(*step.module); !s.ok())
      return Fail(Error("E0603", fmt::format("the IR of host step {} is not well formed: {}", i, Message(s))), m->name_,
                  diagnostics);
    const Graph &g = step.module->main();
    if (g.num_inputs() != host.inputs.size() || g.num_outputs() != host.outputs.size())
      return Fail(Error("E0603", fmt::format("host step {} has {} inputs and {} outputs, its IR {} and {}", i,
                                             host.inputs.size(), host.outputs.size(), g.num_inputs(), g.num_outputs())),
                  m->name_, diagnostics);
  }
  return std::shared_ptr<const Model>(std::move(m));
}

const std::vector<timing::Timeline> &Model::timelines() const {
  std::call_once(timed_, [&] {
    for (const auto &step : file_.steps) {
      const auto *npu = std::get_if<container::NpuStep>(&step);
      timelines_.push_back(npu ? timing::Simulate(npu->stream, target_) : timing::Timeline());
    }
  });
  return timelines_;
}

} // namespace npuc::runtime
