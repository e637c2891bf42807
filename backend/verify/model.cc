// A whole model: its streams, and that steps, layers and captures refer to what is there.
#include <algorithm>

#include "backend/isa/names.h"
#include "backend/verify/check.h"
#include "backend/verify/verify.h"
#include "compiler/support/diagnostic.h"

namespace npuc::verify {

using container::HostBinding;
using container::HostStep;
using container::IoTensor;
using container::ModelFile;
using container::NpuStep;
using isa::Region;

namespace {

class ModelChecker {
public:
  explicit ModelChecker(const ModelFile &m) : m_(m) {}

  std::vector<Finding> Run() {
    StatusOr<Target> target = Target::FromText(m_.target_text, "target");
    if (!target.ok()) {
      Add(0, fmt::format("the embedded target description is not valid: {}", Message(target.status())));
      return out_;
    }
    target_ = *std::move(target);
    sizes_.const_bytes = m_.const_bytes;
    sizes_.arena_bytes = m_.arena_bytes;
    sizes_.sram_bytes = m_.sram_bytes;
    sizes_.num_inputs = m_.inputs.size();
    if (m_.target_name != target_.name)
      Add(0, fmt::format("the target is named {}, its description {}", m_.target_name, target_.name));
    std::vector<bool> written(static_cast<size_t>(m_.num_slots)); // slots
    for (const IoTensor &t : m_.inputs) {
      Io(t);
      if (t.slot >= 0 && t.slot < m_.num_slots)
        written[t.slot] = true;
    }
    for (const IoTensor &t : m_.outputs)
      Io(t);

    for (size_t i = 0; i < m_.steps.size(); ++i) {
      step_ = i;
      if (const auto *npu = std::get_if<NpuStep>(&m_.steps[i])) {
        for (size_t k = 0; k < npu->stream.size(); ++k)
          if (npu->stream[k].layer >= m_.layers.size() && isa::OpcodeOf(npu->stream[k]) != isa::Opcode::End) {
            Add(k, fmt::format("command {} is of layer {}, there are {}", k, npu->stream[k].layer, m_.layers.size()));
            break;
          }
        for (Finding &f : VerifyStream(npu->stream, target_, sizes_))
          Add(f.command, std::move(f.text));
        continue;
      }
      Host(std::get<HostStep>(m_.steps[i]), &written);
    }
    for (const IoTensor &t : m_.outputs)
      if (t.slot >= 0 && t.slot < m_.num_slots && !written[t.slot])
        Whole(fmt::format("output '{}' is never written", t.name));
    for (const container::Layer &l : m_.layers)
      Origins(l.origins, l.name);
    for (const container::Capture &c : m_.captures)
      Captured(c);
    return std::move(out_);
  }

private:
  void Push(size_t command, std::string text) {
    if (out_.size() < kMaxFindings)
      out_.push_back({"E0604", command, std::move(text)});
  }
  void Add(size_t command, std::string text) { Push(command, fmt::format("step {}: {}", step_, text)); }
  void Whole(std::string text) { Push(0, std::move(text)); }

  void Io(const IoTensor &t) {
    sizes_.io_bytes.push_back(t.slot >= 0 ? 0 : t.bytes);
    if (t.slot >= m_.num_slots)
      Whole(fmt::format("'{}' lies in slot {} of {}", t.name, t.slot, m_.num_slots));
    if (t.slot >= 0)
      return;
    if (!t.type.is_static_tensor() || t.type.dtype() == DType::String)
      Whole(fmt::format("'{}' lies in memory, but its type is {}", t.name, t.type.ToString()));
    else if (t.bytes < t.type.num_bytes())
      Whole(fmt::format("'{}' has {} bytes, its type needs {}", t.name, t.bytes, t.type.num_bytes()));
  }

  void Origins(const std::vector<uint32_t> &origins, std::string_view what) {
    for (uint32_t o : origins)
      if (o >= m_.origins.size())
        return Whole(fmt::format("'{}' stands for node {} of {}", what, o, m_.origins.size()));
  }

  // In-bounds bytes of a binding in memory; nullopt for slots and after a finding.
  struct Bytes {
    Region region;
    uint32_t index;
    int64_t lo, hi;
  };
  std::optional<Bytes> Memory(const HostBinding &b, bool write) {
    if (!b.type.is_static_tensor() || b.type.dtype() == DType::String) {
      Add(0, fmt::format("'{}' lies in memory, but its type is {}", b.name, b.type.ToString()));
      return std::nullopt;
    }
    int64_t size = 0;
    switch (b.address.region) {
    case Region::Arena:
      size = m_.arena_bytes;
      break;
    case Region::Io:
      if (b.address.index >= sizes_.io_bytes.size()) {
        Add(0, fmt::format("'{}' lies in io{}, the model has {}", b.name, b.address.index, sizes_.io_bytes.size()));
        return std::nullopt;
      }
      size = sizes_.io_bytes[b.address.index];
      if (write && b.address.index < m_.inputs.size())
        Add(0, fmt::format("'{}' is written to io{}, a model input", b.name, b.address.index));
      break;
    case Region::Const:
      size = m_.const_bytes;
      if (write)
        Add(0, fmt::format("'{}' is written to const", b.name));
      break;
    default:
      Add(0, fmt::format("'{}' lies in {}; a host step reads and writes arena and io", b.name,
                         isa::EnumName(b.address.region)));
      return std::nullopt;
    }
    const int64_t bytes = b.type.num_bytes();
    if (b.address.offset < 0 || b.address.offset > size || bytes > size - b.address.offset) {
      Add(0, fmt::format("'{}' has {} bytes at {}, the region has {}", b.name, bytes, b.address.offset, size));
      return std::nullopt;
    }
    return Bytes{b.address.region, b.address.region == Region::Io ? b.address.index : 0, b.address.offset,
                 b.address.offset + bytes};
  }

  void Host(const HostStep &h, std::vector<bool> *written) {
    for (const HostStep::NodeInfo &n : h.nodes)
      Origins(n.origins, n.op);
    for (const HostBinding &b : h.inputs) {
      if (b.slot < 0)
        Memory(b, false);
      else if (b.slot >= m_.num_slots || !(*written)[b.slot])
        Add(0, fmt::format("'{}' is read from slot {}, which nothing has written", b.name, b.slot));
    }
    // Results are written after all operands are read; two results must not share bytes.
    std::vector<Bytes> results;
    for (const HostBinding &b : h.outputs) {
      if (b.slot < 0) {
        if (auto r = Memory(b, true); r && r->hi > r->lo)
          results.push_back(*r);
      } else if (b.slot >= m_.num_slots) {
        Add(0, fmt::format("'{}' is written to slot {} of {}", b.name, b.slot, m_.num_slots));
      } else {
        (*written)[b.slot] = true;
      }
    }
    std::sort(results.begin(), results.end(), [](const Bytes &a, const Bytes &b) {
      return std::tie(a.region, a.index, a.lo) < std::tie(b.region, b.index, b.lo);
    });
    for (size_t i = 1; i < results.size(); ++i)
      if (results[i].region == results[i - 1].region && results[i].index == results[i - 1].index &&
          results[i].lo < results[i - 1].hi)
        Add(0, "two results share bytes");
  }

  void Captured(const container::Capture &c) {
    const auto *npu = c.step < m_.steps.size() ? std::get_if<NpuStep>(&m_.steps[c.step]) : nullptr;
    if (!npu || c.command < -1 || c.command >= static_cast<int64_t>(npu->stream.size()))
      return Whole(fmt::format("capture '{}' names step {}, command {}", c.name, c.step, c.command));
    const isa::Command none;
    std::vector<Finding> found;
    Checker checker(target_, sizes_, 0, none, &found);
    CheckView(checker, c.view, false, fmt::format("capture '{}'", c.name));
    for (Finding &f : found)
      Whole(std::move(f.text));
  }

  const ModelFile &m_;
  Target target_;
  MemorySizes sizes_;
  size_t step_ = 0;
  std::vector<Finding> out_;
};

} // namespace

std::vector<Finding> VerifyModel(const ModelFile &m) {
  return ModelChecker(m).Run();
}

} // namespace npuc::verify
