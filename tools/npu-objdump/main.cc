// npu-objdump: what is inside a model.bin.
#include "backend/container/model_file.h"
#include "backend/isa/isa.h"
#include "backend/verify/verify.h"
#include "compiler/support/json.h"
#include "compiler/target/target.h"
#include "tools/common/flags.h"

namespace npuc {
namespace {

struct Options {
  std::string model;
  bool disassemble = false, verify = false, json = false;
};

std::vector<int64_t> CommandsPerLayer(const container::ModelFile &m) {
  std::vector<int64_t> count(m.layers.size(), 0);
  for (const auto &step : m.steps)
    if (const auto *npu = std::get_if<container::NpuStep>(&step))
      for (const isa::Command &c : npu->stream)
        if (c.layer < count.size() && !std::holds_alternative<isa::End>(c.body))
          ++count[c.layer];
  return count;
}

std::vector<std::string> Ids(const container::ModelFile &m, const std::vector<uint32_t> &origins) {
  std::vector<std::string> ids;
  for (const uint32_t o : origins)
    ids.push_back(o < m.origins.size() ? m.origins[o] : fmt::format("?{}", o));
  return ids;
}

void WriteIo(JsonWriter &w, const std::vector<container::IoTensor> &tensors) {
  w.BeginArray();
  for (const container::IoTensor &t : tensors) {
    std::vector<std::string> shape;
    if (t.type.is_tensor() && t.type.shape().ranked())
      for (const Dim &d : t.type.shape().dims())
        shape.push_back(d.is_static() ? std::to_string(d.value()) : std::string(d.symbol()));
    const bool quantized = t.type.is_quantized() && t.type.quant()->per_tensor();
    w.BeginObject()
        .Field("name", t.name)
        .Field("dtype", t.type.is_tensor() ? std::string(Name(t.type.dtype())) : t.type.ToString());
    w.Key("shape").BeginLine().BeginArray();
    for (const std::string &s : shape) {
      if (!s.empty() && s.find_first_not_of("0123456789") == std::string::npos)
        w.Raw(s);
      else
        w.Value(s);
    }
    w.EndArray();
    w.Field("layout", Name(t.type.layout()))
        .Field("scale", quantized ? static_cast<double>(t.type.quant()->scale()) : 0.0);
    w.Field("zero_point", quantized ? t.type.quant()->zero_point() : 0).Field("bytes", t.bytes).EndObject();
  }
  w.EndArray();
}

std::string Json(const container::ModelFile &m) {
  std::string text;
  JsonWriter w(&text);
  w.BeginObject();
  w.Key("inputs");
  WriteIo(w, m.inputs);
  w.Key("outputs");
  WriteIo(w, m.outputs);
  w.Key("target").BeginObject().Field("name", m.target_name);
  if (auto target = Target::FromText(m.target_text, "target"); target.ok())
    w.Field("sha256", target->Sha256());
  w.EndObject();
  w.Key("steps").BeginArray();
  for (const auto &step : m.steps) {
    w.BeginObject();
    if (const auto *npu = std::get_if<container::NpuStep>(&step)) {
      w.Field("kind", "npu").Field("commands", npu->stream.size()).Field("words", isa::Encode(npu->stream).size());
    } else {
      w.Field("kind", "host").Key("nodes").BeginArray();
      for (const auto &n : std::get<container::HostStep>(step).nodes)
        w.BeginObject().Field("op", n.op).Field("origins", Ids(m, n.origins)).EndObject();
      w.EndArray();
    }
    w.EndObject();
  }
  w.EndArray();
  const std::vector<int64_t> commands = CommandsPerLayer(m);
  w.Key("layers").BeginArray();
  for (size_t i = 0; i < m.layers.size(); ++i) {
    const container::Layer &l = m.layers[i];
    w.BeginObject()
        .Field("id", l.id)
        .Field("name", l.name)
        .Field("op", l.op)
        .Field("origins", Ids(m, l.origins))
        .Field("commands", commands[i])
        .EndObject();
  }
  w.EndArray();
  w.Field("arena_bytes", m.arena_bytes).Field("sram_bytes", m.sram_bytes).Field("const_bytes", m.const_bytes);
  w.Key("metadata").BeginObject();
  for (const auto &[key, value] : m.metadata)
    w.Field(key, value);
  w.EndObject();
  w.EndObject();
  return text + "\n";
}

std::string Summary(const container::ModelFile &m, const std::string &path) {
  std::string s = fmt::format("{}: target {}, ISA {}\n", path, m.target_name, isa::kIsaVersion);
  for (const auto &[key, value] : m.metadata)
    s += fmt::format("  {}: {}\n", key, value);
  s += fmt::format("memory: const {} bytes, arena {} bytes, sram {} bytes, {} slots\n", m.const_bytes, m.arena_bytes,
                   m.sram_bytes, m.num_slots);
  size_t region = 0;
  const auto io = [&](const char *what, const std::vector<container::IoTensor> &tensors) {
    s += fmt::format("{}:\n", what);
    for (const container::IoTensor &t : tensors) {
      s += fmt::format("  io[{}] {} {}", region++, t.name, t.type.ToString());
      s += t.slot >= 0 ? fmt::format(" slot {}\n", t.slot) : fmt::format(" {} bytes\n", t.bytes);
    }
  };
  io("inputs", m.inputs);
  io("outputs", m.outputs);
  s += "steps:\n";
  for (size_t i = 0; i < m.steps.size(); ++i) {
    if (const auto *npu = std::get_if<container::NpuStep>(&m.steps[i])) {
      std::array<int, isa::kNumEngines> engines{};
      for (const isa::Command &c : npu->stream)
        engines[static_cast<int>(c.engine)] += !std::holds_alternative<isa::End>(c.body);
      s += fmt::format("  {} npu: {} commands (LD {}, ST {}, MXU {}, VPU {}), {} words\n", i, npu->stream.size(),
                       engines[0], engines[1], engines[2], engines[3], isa::Encode(npu->stream).size());
    } else {
      const auto &host = std::get<container::HostStep>(m.steps[i]);
      s += fmt::format("  {} host: {} nodes\n", i, host.nodes.size());
      for (const auto &n : host.nodes)
        s += fmt::format("    {} {}\n", n.op, fmt::join(Ids(m, n.origins), " "));
    }
  }
  const std::vector<int64_t> commands = CommandsPerLayer(m);
  s += "layers:\n";
  for (size_t i = 0; i < m.layers.size(); ++i)
    s += fmt::format("  {} {} {} ({} commands): {}\n", m.layers[i].id, m.layers[i].op, m.layers[i].name, commands[i],
                     fmt::join(Ids(m, m.layers[i].origins), " "));
  return s;
}

std::string Disassembly(const container::ModelFile &m) {
  std::string s;
  for (size_t i = 0; i < m.steps.size(); ++i) {
    const auto *npu = std::get_if<container::NpuStep>(&m.steps[i]);
    if (!npu) {
      const auto &host = std::get<container::HostStep>(m.steps[i]);
      s += fmt::format("step {}: host\n{}\n", i, host.ir);
      continue;
    }
    s += fmt::format("step {}: npu, {} commands\n", i, npu->stream.size());
    std::array<uint32_t, isa::kNumEngines> number{};
    int64_t layer = -1;
    for (size_t k = 0; k < npu->stream.size(); ++k) {
      const isa::Command &c = npu->stream[k];
      if (c.layer != layer && !std::holds_alternative<isa::End>(c.body)) {
        layer = c.layer;
        if (c.layer < m.layers.size())
          s += fmt::format("; layer {} {} {}: {}\n", c.layer, m.layers[c.layer].op, m.layers[c.layer].name,
                           fmt::join(Ids(m, m.layers[c.layer].origins), " "));
      }
      s += fmt::format("{:6} #{:<5} {}\n", k, number[static_cast<int>(c.engine)]++, isa::Disassemble(c));
    }
  }
  return s;
}

StatusOr<int> Dump(const Options &o, const cli::Console &console) {
  NPUC_ASSIGN_OR_RETURN(const container::ModelFile m, container::ReadModelFile(o.model));
  int code = cli::kDone;
  std::string text;
  if (o.verify) {
    const std::vector<verify::Finding> findings = verify::VerifyModel(m);
    for (const verify::Finding &f : findings)
      console.Print(FromStatus(AtFile(Error(f.code, f.text), o.model)));
    if (!findings.empty())
      code = cli::kBadInput;
    else if (!console.quiet && !o.json && !o.disassemble)
      text = fmt::format("{}: verified\n", o.model);
  }
  if (o.json)
    text = Json(m);
  else if (o.disassemble)
    text = Disassembly(m);
  else if (!o.verify)
    text = Summary(m, o.model);
  if (!text.empty())
    NPUC_RETURN_IF_ERROR(cli::WriteStdout(text));
  return code;
}

} // namespace
} // namespace npuc

int main(int argc, char **argv) {
  using namespace npuc;
  cli::Console console("npu-objdump");
  Options o;
  CLI::App app("Shows what is inside an NPU binary.", "npu-objdump");
  cli::AddCommonFlags(app, console);
  app.add_option("model", o.model, "model.bin")->required();
  app.add_flag("-d,--disassemble", o.disassemble, "Commands with their layers and ONNX nodes; IR of host steps");
  app.add_flag("--verify", o.verify, "Prove everything that the loader proves; list every violation");
  app.add_flag("--json", o.json, "As JSON");
  return cli::Main(app, argc, argv, console, [&]() -> int {
    auto code = Dump(o, console);
    return code.ok() ? *code : console.Fail(code.status(), o.model);
  });
}
