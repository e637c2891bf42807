// Profile and trace from the simulated timelines. Cost: one simulation a segment (kept by the model), one walk over the
// commands.
#include "runtime_stub/profile.h"

#include "compiler/support/json.h"

namespace npuc::runtime {
namespace {

constexpr const char *kEngines[] = {"LD", "ST", "MXU", "VPU"};

double Mhz(const Target &t) {
  return static_cast<double>(t.clock_mhz.num) / static_cast<double>(t.clock_mhz.den);
}
double Cycles(timing::Units u) {
  return static_cast<double>(u) / timing::kUnitsPerCycle;
}

void WriteIds(JsonWriter &w, const container::ModelFile &f, const std::vector<uint32_t> &origins) {
  std::vector<std::string> ids;
  for (const uint32_t o : origins)
    ids.push_back(f.origins[o]);
  w.Field("origins", ids);
}

} // namespace

Profile ModelledProfile(const Model &model) {
  const container::ModelFile &f = model.file();
  Profile p;
  p.layers.resize(f.layers.size());
  std::array<timing::Units, isa::kNumEngines> busy{};
  for (size_t i = 0; i < f.steps.size(); ++i) {
    const auto *npu = std::get_if<container::NpuStep>(&f.steps[i]);
    if (!npu) {
      ++p.host_steps;
      continue;
    }
    const timing::Timeline &t = model.timelines()[i];
    timing::AddLayerTimes(npu->stream, t, model.target(), &p.layers);
    ++p.npu_steps;
    p.commands += npu->stream.size();
    p.cycles += t.cycles();
    for (int e = 0; e < isa::kNumEngines; ++e)
      busy[e] += t.busy[e];
    p.ddr_read_bytes += t.ddr_read_bytes;
    p.ddr_write_bytes += t.ddr_write_bytes;
    p.stream_bytes += t.stream_bytes;
    p.sram_bytes += t.sram_bytes;
    p.macs += t.macs;
  }
  p.layer_cycles = timing::LayerCycles(p.layers);
  p.milliseconds = static_cast<double>(p.cycles) / (Mhz(model.target()) * 1000);
  for (int e = 0; e < isa::kNumEngines; ++e)
    p.busy_share[e] = p.cycles ? Cycles(busy[e]) / static_cast<double>(p.cycles) : 0;
  return p;
}

std::string ProfileJson(const Model &model, const std::vector<double> &step_seconds) {
  const container::ModelFile &f = model.file();
  const Profile p = ModelledProfile(model);
  std::string text;
  JsonWriter w(&text);
  w.BeginObject().Field("schema", "npuc-profile/1");
  w.Field("target", f.target_name).Field("clock_mhz", Mhz(model.target()));
  w.Key("modelled").BeginObject();
  w.Field("cycles", p.cycles).Field("latency_ms", p.milliseconds).Field("macs", p.macs).Field("commands", p.commands);
  w.Field("ddr_read_bytes", p.ddr_read_bytes)
      .Field("ddr_write_bytes", p.ddr_write_bytes)
      .Field("stream_bytes", p.stream_bytes)
      .Field("sram_bytes", p.sram_bytes);
  w.Key("engines").BeginObject();
  for (int e = 0; e < isa::kNumEngines; ++e) {
    const double busy = p.busy_share[e] * static_cast<double>(p.cycles);
    w.Key(kEngines[e])
        .BeginLine()
        .BeginObject()
        .Field("busy_cycles", busy)
        .Field("idle_cycles", static_cast<double>(p.cycles) - busy)
        .Field("busy_share", p.busy_share[e])
        .EndObject();
  }
  w.EndObject().EndObject();
  w.Key("layers").BeginArray();
  for (size_t i = 0; i < f.layers.size(); ++i) {
    const timing::LayerTime &l = p.layers[i];
    w.BeginObject().Field("id", f.layers[i].id).Field("name", f.layers[i].name).Field("op", f.layers[i].op);
    WriteIds(w, f, f.layers[i].origins);
    w.Field("cycles", p.layer_cycles[i])
        .Field("share", p.cycles ? static_cast<double>(p.layer_cycles[i]) / static_cast<double>(p.cycles) : 0.0);
    w.Key("busy_cycles").BeginLine().BeginObject();
    for (int e = 0; e < isa::kNumEngines; ++e)
      w.Field(kEngines[e], Cycles(l.busy[e]));
    w.EndObject();
    w.Field("commands", l.commands)
        .Field("macs", l.macs)
        .Field("ddr_read_bytes", l.ddr_read_bytes)
        .Field("ddr_write_bytes", l.ddr_write_bytes)
        .Field("sram_bytes", l.sram_bytes);
    w.EndObject();
  }
  w.EndArray();
  w.Key("steps").BeginArray();
  for (size_t i = 0; i < f.steps.size(); ++i) {
    w.BeginObject();
    if (const auto *npu = std::get_if<container::NpuStep>(&f.steps[i])) {
      w.Field("kind", "npu").Field("commands", npu->stream.size()).Field("cycles", model.timelines()[i].cycles());
    } else {
      w.Field("kind", "host").Key("nodes").BeginArray();
      for (const auto &n : std::get<container::HostStep>(f.steps[i]).nodes) {
        w.BeginLine().BeginObject().Field("op", n.op);
        WriteIds(w, f, n.origins);
        w.EndObject();
      }
      w.EndArray();
      if (i < step_seconds.size())
        w.Field("measured_us", step_seconds[i] * 1e6);
    }
    w.EndObject();
  }
  w.EndArray().EndObject();
  text += '\n';
  return text;
}

std::string TraceJson(const Model &model, const std::vector<double> &step_seconds) {
  const container::ModelFile &f = model.file();
  const double mhz = Mhz(model.target());
  std::string text;
  JsonWriter w(&text, 0);
  w.BeginObject().Field("displayTimeUnit", "ns").Key("traceEvents").BeginArray();
  const auto name_track = [&](const char *kind, int tid, std::string_view name) {
    w.BeginObject()
        .Field("name", kind)
        .Field("ph", "M")
        .Field("pid", 1)
        .Field("tid", tid)
        .Key("args")
        .BeginObject()
        .Field("name", name)
        .EndObject()
        .EndObject();
    text += '\n';
  };
  name_track("process_name", 0, f.target_name + " (modelled)");
  for (int e = 0; e < isa::kNumEngines; ++e)
    name_track("thread_name", e + 1, kEngines[e]);
  name_track("thread_name", 5, "host (measured)");
  double start = 0; // microseconds
  for (size_t i = 0; i < f.steps.size(); ++i) {
    const auto *npu = std::get_if<container::NpuStep>(&f.steps[i]);
    if (!npu) {
      const double us = i < step_seconds.size() ? step_seconds[i] * 1e6 : 0;
      std::string name;
      for (const auto &n : std::get<container::HostStep>(f.steps[i]).nodes)
        name += (name.empty() ? "" : ", ") + n.op;
      w.BeginObject()
          .Field("name", name)
          .Field("ph", "X")
          .Field("pid", 1)
          .Field("tid", 5)
          .Field("ts", start)
          .Field("dur", us);
      w.Key("args").BeginObject().Field("step", i).EndObject().EndObject();
      text += '\n';
      start += us;
      continue;
    }
    const timing::Timeline &t = model.timelines()[i];
    for (size_t k = 0; k < npu->stream.size(); ++k) {
      const isa::Command &c = npu->stream[k];
      if (std::holds_alternative<isa::End>(c.body))
        continue;
      const timing::CommandTime &time = t.commands[k];
      const std::string &layer = c.layer < f.layers.size() ? f.layers[c.layer].name : f.target_name;
      w.BeginObject()
          .Field("name", layer)
          .Field("cat", isa::Name(isa::OpcodeOf(c)))
          .Field("ph", "X")
          .Field("pid", 1)
          .Field("tid", static_cast<int>(c.engine) + 1);
      w.Field("ts", start + Cycles(time.start) / mhz).Field("dur", Cycles(time.end - time.start) / mhz);
      w.Key("args")
          .BeginObject()
          .Field("step", i)
          .Field("command", k)
          .Field("opcode", isa::Name(isa::OpcodeOf(c)))
          .Field("cycles", Cycles(time.end - time.start));
      w.Field("bound_by", timing::Name(time.bound)).EndObject().EndObject();
      text += '\n';
    }
    start += Cycles(t.total) / mhz;
  }
  w.EndArray().EndObject();
  text += '\n';
  return text;
}

} // namespace npuc::runtime
