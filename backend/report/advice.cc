// Every piece of advice is a change that was compiled (what_if.h): its figures are the changed model's own, so
// following it gives just what it says. Changes that bring nothing are listed as tried, so nobody tries them again.
//
//   output-cut     ends the model before its tail of host nodes, or before the first host node, when less than 2 % of
//                  the multiplications come behind
//   fixed-shape    gives free dims an example's extents; the host's time for free shapes is not known, so the gain is 0
//   pad-channels   an image input of 2 or 3 channels gets 4 or 16
//   hard-swish     x * sigmoid(x) becomes HardSwish
//   int8           what computes in f16 is quantised, between integer layers or everywhere
//   sram           the least SRAM, of a few steps up to 4 times, that brings half of what ample SRAM brings
//
// Cost: up to ten compilations, each about as long as the first without its advice.
#include "backend/report/advice.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/report/render.h"

namespace npuc::report {
namespace {

constexpr double kWorth = 0.005; // of the time: less is not advised

std::string Join(const std::vector<std::string> &names, size_t most) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < most; ++i)
    out += (i ? ", '" : "'") + names[i] + "'";
  return names.size() > most ? fmt::format("{} and {} more", out, names.size() - most) : out;
}

std::string Plural(size_t n, const char *what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

class Adviser {
public:
  Adviser(const Target &target, const ModelGraph &graph, const TryFn &try_change, Report *r)
      : target_(target), graph_(graph), try_(try_change), r_(*r) {}

  void Run() {
    // Free shapes hide what the host nodes cost: they come first, the cut when they are fixed.
    FixShapes();
    if (r_.advice.empty())
      CutTheTail();
    PadChannels();
    ReplaceSwish();
    Quantise();
    FitSram();
    auto by_gain = [](const Advice &a, const Advice &b) {
      // Nodes of free shape that come to the NPU: the host's time for them is not known, and is most of it.
      const bool x = a.kind == "fixed-shape", y = b.kind == "fixed-shape";
      return x != y ? x : a.predicted_gain_cycles > b.predicted_gain_cycles;
    };
    std::stable_sort(r_.advice.begin(), r_.advice.end(), by_gain);
    std::stable_sort(r_.tried.begin(), r_.tried.end(), by_gain);
  }

private:
  int64_t CyclesOf(double ms) const { return std::llround(ms * target_.clock_mhz.ToDouble() * 1000); }
  int64_t Gain(const Report &then) const {
    return CyclesOf(r_.performance.latency_total_estimate_ms - then.performance.latency_total_estimate_ms);
  }
  bool Pays(int64_t gain) const {
    return double(gain) >= kWorth * double(CyclesOf(r_.performance.latency_total_estimate_ms)) && gain > 0;
  }
  Advice Row(const char *kind, const std::string &node, std::string message, std::string apply, const Report &then) {
    Advice a;
    a.kind = kind;
    a.node = node;
    a.message = std::move(message);
    a.apply = std::move(apply);
    a.predicted_gain_cycles = Gain(then);
    a.predicted_cycles = then.performance.cycles;
    a.predicted_latency_ms = then.performance.latency_total_estimate_ms;
    return a;
  }
  std::optional<Answer> Try(const WhatIf &change) {
    StatusOr<Answer> answer = try_(change);
    if (!answer.ok())
      return std::nullopt;
    return *std::move(answer);
  }

  void FixShapes() {
    const NodeRow *first = nullptr;
    for (const NodeRow &node : r_.nodes)
      for (const Reason &reason : node.reasons)
        if (reason.rule == "dynamic-shape")
          first = first ? first : &node;
    if (!first)
      return;
    WhatIf change;
    for (const IoRow &input : r_.inputs) {
      bool free = false;
      std::string shape;
      for (size_t i = 0; i < input.shape.size(); ++i) {
        const Extent &e = input.shape[i];
        const bool fixed = e.symbol.empty() && e.value > 0;
        free = free || !fixed;
        // Pictures are often 224 high and wide; of what else nothing is known. Few channels at the end: channels last.
        const Extent &last = input.shape.back();
        const size_t height = last.symbol.empty() && last.value > 0 && last.value <= 4 ? 1 : 2;
        const bool side = input.shape.size() == 4 && (i == height || i == height + 1);
        const int64_t example = side ? 224 : i == 0 ? 1 : 64;
        shape += fmt::format("{}{}", i ? "x" : "", fixed ? e.value : example);
      }
      if (free)
        change.input_shapes.push_back(input.name + "=" + shape);
    }
    if (change.input_shapes.empty())
      return;
    auto then = Try(change);
    if (!then || then->report.coverage.nodes_host >= r_.coverage.nodes_host)
      return;
    Advice a = Row("fixed-shape", first->id, "", then->command, then->report);
    a.predicted_gain_cycles = 0;
    for (size_t i = 0; i < r_.nodes.size(); ++i)
      a.nodes_to_npu += r_.nodes[i].verdict == "host" && then->report.nodes[i].verdict != "host";
    a.message = fmt::format("free dims keep {} of {} host nodes off the NPU; with {} (use your own extents) it takes "
                            "them: {} cycles, {:.3f} ms in all",
                            a.nodes_to_npu, r_.coverage.nodes_host, Join(change.input_shapes, 3),
                            Grouped(a.predicted_cycles), a.predicted_latency_ms);
    r_.advice.push_back(std::move(a));
  }

  void CutTheTail() {
    if (r_.coverage.nodes_npu == 0 || r_.coverage.nodes_host == 0)
      return;
    const Cut host = CutTail(graph_, r_.nodes, Tail::HostTail), all = CutTail(graph_, r_.nodes, Tail::BehindHost);
    CutAt(host, "no NPU node comes behind them");
    if (all.left_out.size() > host.left_out.size())
      CutAt(all, "all that hangs on host nodes goes to the application");
  }

  void CutAt(const Cut &cut, const char *why) {
    int64_t total = 0, lost = 0;
    for (const NodeRow &n : r_.nodes)
      total += n.macs;
    for (OriginId id : cut.left_out)
      lost += r_.nodes[id].macs;
    // A tail that multiplies is no post-processing.
    if (cut.tensors.empty() || lost * 50 > total)
      return;
    WhatIf change;
    change.outputs = cut.tensors;
    auto then = Try(change);
    if (!then || then->report.coverage.nodes_host >= r_.coverage.nodes_host)
      return;
    std::vector<std::string> ops; // of the tail, each once
    for (OriginId id : cut.left_out)
      if (r_.nodes[id].verdict != "eliminated" && std::find(ops.begin(), ops.end(), r_.nodes[id].op) == ops.end())
        ops.push_back(r_.nodes[id].op);
    Advice a = Row("output-cut", r_.nodes[cut.left_out[0]].id,
                   fmt::format("end the model at {}: the {} behind ({}) stay out; {}", Join(cut.cut, 4),
                               Plural(cut.left_out.size(), "node"), fmt::join(ops, ", "), why),
                   then->command, then->report);
    // The host's time for free shapes counts as 0, so the gain can be none although host steps go.
    const bool fewer = then->report.coverage.host_segments < r_.coverage.host_segments;
    const double before = r_.performance.latency_total_estimate_ms;
    (Pays(a.predicted_gain_cycles) || (fewer && a.predicted_latency_ms < 1.05 * before) ? r_.advice : r_.tried)
        .push_back(std::move(a));
  }

  void PadChannels() {
    const IoRow *narrow = nullptr;
    for (const IoRow &input : r_.inputs)
      if (input.shape.size() == 4 && input.shape[1].symbol.empty() &&
          (input.shape[1].value == 2 || input.shape[1].value == 3))
        narrow = narrow ? narrow : &input;
    if (!narrow || r_.coverage.nodes_npu == 0)
      return;
    for (int64_t channels : {4, 16}) {
      WhatIf change;
      change.edit = [channels](Module &m) { return PadInputChannels(m, channels); };
      auto then = Try(change);
      if (!then)
        return;
      Advice a =
          Row("pad-channels", "",
              fmt::format("give input '{}' {} channels instead of {}, zeros in data and weights", narrow->name,
                          channels, narrow->shape[1].value),
              fmt::format("pad '{}' and the weights that read it with zeros to {} channels", narrow->name, channels),
              then->report);
      (Pays(a.predicted_gain_cycles) ? r_.advice : r_.tried).push_back(std::move(a));
    }
  }

  void ReplaceSwish() {
    if (r_.coverage.nodes_npu == 0 ||
        std::none_of(r_.nodes.begin(), r_.nodes.end(), [](auto &n) { return n.op == "Sigmoid" && n.verdict == "npu"; }))
      return;
    WhatIf change;
    change.edit = SwishToHardSwish;
    auto then = Try(change);
    if (!then)
      return;
    const auto first = std::find_if(r_.nodes.begin(), r_.nodes.end(), [](auto &n) { return n.op == "Sigmoid"; });
    Advice a =
        Row("hard-swish", first->id,
            "x * sigmoid(x) costs passes of the output stage on this target; HardSwish is cheaper (other values: "
            "train or tune again)",
            "replace SiLU by HardSwish in the model", then->report);
    (Pays(a.predicted_gain_cycles) ? r_.advice : r_.tried).push_back(std::move(a));
  }

  void Quantise() {
    if (!target_.Supports(DType::F16) || !target_.Supports(DType::I8))
      return;
    int64_t floats = 0;
    const NodeRow *first = nullptr;
    for (const NodeRow &n : r_.nodes)
      if (n.verdict == "npu" && n.precision == "f16" && n.macs > 0) {
        ++floats;
        first = first ? first : &n;
      }
    if (!first)
      return;
    WhatIf change;
    change.int8 = true;
    auto then = Try(change);
    if (!then || then->report.quantization.nodes_int8 <= r_.quantization.nodes_int8)
      return;
    const bool between = r_.quantization.nodes_int8 > 0;
    Advice a =
        Row("int8", first->id,
            between ? fmt::format("{} with MACs stay{} f16 among int8 ones; quantised too (samples of real input "
                                  "give the ranges), they run at the integer rate",
                                  Plural(size_t(floats), "node"), floats == 1 ? "s" : "")
                    : fmt::format("{} with MACs compute{} in f16; quantised to 8 bits (samples of real input give "
                                  "the ranges), they run at the integer rate",
                                  Plural(size_t(floats), "node"), floats == 1 ? "s" : ""),
            then->command + " --calib SAMPLES", then->report);
    (Pays(a.predicted_gain_cycles) ? r_.advice : r_.tried).push_back(std::move(a));
  }

  void FitSram() {
    if (r_.memory.spilled.empty())
      return;
    const int64_t have = r_.memory.sram_bytes;
    auto with = [&](int64_t eighths) {
      WhatIf change;
      change.sram_bytes = have * eighths / 8;
      return Try(change);
    };
    int64_t size = 16;
    auto then = with(size);
    if (then && !Pays(Gain(then->report)))
      then = with(size = 32);
    if (!then)
      return;
    const int64_t most = Gain(then->report);
    if (Pays(most) && size == 16)
      for (int64_t eighths : {9, 10, 12})
        if (auto less = with(eighths); less && Gain(less->report) * 2 >= most) {
          then = std::move(less);
          size = eighths;
          break;
        }
    std::vector<std::string> kept; // on chip then
    const SpilledTensor *largest = nullptr;
    for (const SpilledTensor &t : r_.memory.spilled) {
      const auto &still = then->report.memory.spilled;
      if (std::any_of(still.begin(), still.end(), [&](auto &s) { return s.name == t.name; }))
        continue;
      largest = largest ? largest : &t;
      kept.push_back(t.name);
    }
    if (kept.empty())
      return;
    const int64_t bytes = have * size / 8;
    Advice a =
        Row("sram", "",
            kept.size() == 1
                ? fmt::format("{} ({}) does not fit beside its neighbours in {} of SRAM and goes through DDR; with "
                              "{} it stays on chip, a smaller input does the same",
                              Join(kept, 1), Bytes(largest->bytes), Bytes(have), Bytes(bytes))
                : fmt::format("{} tensors, the largest {} ({}), do not fit beside their neighbours in {} of SRAM "
                              "and go through DDR; with {} they stay on chip, a smaller input does the same",
                              kept.size(), Join({kept[0]}, 1), Bytes(largest->bytes), Bytes(have), Bytes(bytes)),
            fmt::format("sram: {{ bytes: {} }} in the target's description", bytes), then->report);
    (Pays(a.predicted_gain_cycles) ? r_.advice : r_.tried).push_back(std::move(a));
  }

  const Target &target_;
  const ModelGraph &graph_;
  const TryFn &try_;
  Report &r_;
};

} // namespace

void FillAdvice(const Target &target, const ModelGraph &graph, const TryFn &try_change, Report *r) {
  Adviser(target, graph, try_change, r).Run();
}

} // namespace npuc::report
