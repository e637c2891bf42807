// A whole stream: every command by itself, accumulations, the queues' end, races.
//
// Deadlock: the queues are replayed without time; of the commands that may go the one that comes first in the stream
// goes, which gives an order in which every command follows all it waits for. In that order vector clocks grow, and a
// race is a conflict (hazards.h) that the clock before the command does not cover: were it ordered the other way round,
// the replay would have put it there.
#include <algorithm>

#include "backend/verify/check.h"
#include "backend/verify/hazards.h"
#include "compiler/support/diagnostic.h"

namespace npuc::verify {

using isa::Command;
using isa::Engine;
using isa::kNumEngines;
using isa::Opcode;

void Checker::Add(const std::string &what) {
  if (out_->size() < kMaxFindings)
    out_->push_back(
        {"E0604", index_, fmt::format("command {} ({}): {}", index_, isa::Name(isa::OpcodeOf(command)), what)});
}

namespace {

// Accumulations in MXU order.
class Accumulations {
public:
  void Next(Checker &c) {
    std::visit(
        [&](const auto &b) {
          using B = std::decay_t<decltype(b)>;
          if constexpr (std::is_same_v<B, isa::Conv> || std::is_same_v<B, isa::MatMul>)
            Next(c, b.accumulate, b.acc, b.out);
        },
        c.command.body);
  }
  void End(Checker &c) { c.Require(!open_, "the accumulation that began in command {} is not finished", began_); }
  size_t index = 0; // of the current command

private:
  void Next(Checker &c, isa::Accumulate a, isa::AccType acc, const isa::View &out) {
    const bool begins = a == isa::Accumulate::Single || a == isa::Accumulate::Start;
    const Opcode opcode = isa::OpcodeOf(c.command);
    if (begins) {
      c.Require(!open_, "{} while the accumulation that began in command {} is open", isa::EnumName(a), began_);
      began_ = index;
      dims_ = out;
      acc_ = acc;
      opcode_ = opcode;
    } else if (c.Require(open_, "{} without an open accumulation", isa::EnumName(a))) {
      c.Require(SameDims(dims_, out) && acc_ == acc && opcode_ == opcode,
                "goes on with the accumulation of command {} ({}, {}, {}) as {}, {}, {}", began_, isa::Name(opcode_),
                DimsText(dims_), isa::EnumName(acc_), isa::Name(opcode), DimsText(out), isa::EnumName(acc));
    }
    open_ = a == isa::Accumulate::Start || a == isa::Accumulate::Continue;
  }

  bool open_ = false;
  size_t began_ = 0;
  isa::View dims_;
  isa::AccType acc_ = isa::AccType::I32;
  Opcode opcode_ = Opcode::Conv;
};

// Stream indices in replay order; what is stuck is reported.
std::vector<size_t> Replay(const isa::Stream &s, std::vector<Finding> *out) {
  std::array<std::vector<size_t>, kNumEngines> queue;
  for (size_t i = 0; i < s.size(); ++i)
    if (isa::OpcodeOf(s[i]) != Opcode::End)
      queue[static_cast<int>(s[i].engine)].push_back(i);
  std::array<size_t, kNumEngines> done{};
  std::vector<size_t> order;
  order.reserve(s.size());
  for (;;) {
    size_t next = s.size();
    for (int e = 0; e < kNumEngines; ++e) {
      if (done[e] == queue[e].size() || queue[e][done[e]] > next)
        continue;
      const Command &c = s[queue[e][done[e]]];
      bool holds = true;
      for (int f = 0; f < kNumEngines; ++f)
        holds &= c.wait[f] <= done[f];
      if (holds)
        next = queue[e][done[e]];
    }
    if (next == s.size())
      break;
    ++done[static_cast<int>(s[next].engine)];
    order.push_back(next);
  }
  for (int e = 0; e < kNumEngines; ++e) {
    if (done[e] == queue[e].size() || out->size() >= kMaxFindings)
      continue;
    const size_t i = queue[e][done[e]];
    std::string waits;
    for (int f = 0; f < kNumEngines; ++f)
      if (s[i].wait[f] > done[f])
        waits += fmt::format("{}{} commands of {}, of which {} can complete", waits.empty() ? "" : " and ",
                             s[i].wait[f], isa::Name(static_cast<Engine>(f)), done[f]);
    out->push_back(
        {"E0604", i, fmt::format("command {} ({}): deadlock: waits for {}", i, isa::Name(isa::OpcodeOf(s[i])), waits)});
  }
  return order;
}

// Which accesses of two conflicting commands meet, for the message.
std::string Meeting(const Command &a, const Command &b) {
  std::string text;
  isa::ForEachAccess(a, [&](const isa::Access &x) {
    isa::ForEachAccess(b, [&](const isa::Access &y) {
      if (!text.empty() || (!x.write && !y.write) || x.address.region != y.address.region ||
          x.address.index != y.address.index)
        return;
      for (const isa::ByteBox &p : ByteSetOf(x))
        for (const isa::ByteBox &q : ByteSetOf(y)) {
          if (!text.empty() || !isa::Overlaps(p, q))
            continue;
          const isa::ByteRange r = p.Bounds(), t = q.Bounds();
          text = fmt::format("its {} and the other's {} meet in {}{} bytes {} to {}", y.what, x.what,
                             isa::Name(x.address.region),
                             x.address.region == isa::Region::Io ? std::to_string(x.address.index) : "",
                             std::max(r.lo, t.lo), std::min(r.hi, t.hi));
        }
    });
  });
  return text;
}

void FindRaces(const isa::Stream &s, const std::vector<size_t> &order, std::vector<Finding> *out) {
  HazardTracker tracker;
  Clocks clocks(s);
  std::array<size_t, kNumEngines> left{};
  for (size_t i : order)
    ++left[static_cast<int>(s[i].engine)];
  constexpr Clock all = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
  for (int e = 0; e < kNumEngines; ++e)
    if (!left[e])
      tracker.SetKnown(static_cast<Engine>(e), all);
  for (size_t i : order) {
    const int e = static_cast<int>(s[i].engine);
    const uint32_t index = clocks.count(e);
    const Clock before = clocks.Before(s[i]);
    const Clock conflict = tracker.Add(s[i], index, before);
    for (int f = 0; f < kNumEngines; ++f) {
      if (!conflict[f] || out->size() >= kMaxFindings)
        continue;
      const size_t other = clocks.stream_index(f, conflict[f] - 1);
      out->push_back({"E0604", i,
                      fmt::format("command {} ({}): race with command {} ({} on {}): {}, and nothing orders them", i,
                                  isa::Name(isa::OpcodeOf(s[i])), other, isa::Name(isa::OpcodeOf(s[other])),
                                  isa::Name(s[other].engine), Meeting(s[other], s[i]))});
    }
    clocks.Append(i, before);
    tracker.SetKnown(s[i].engine, --left[e] ? clocks.after(e, index) : all);
  }
}

} // namespace

std::vector<Finding> VerifyStream(const isa::Stream &s, const Target &t, const MemorySizes &sizes) {
  std::vector<Finding> out;
  if (s.empty() || isa::OpcodeOf(s.back()) != Opcode::End) {
    out.push_back({"E0604", s.size(), "the stream does not end in END"});
    return out;
  }
  if (sizes.sram_bytes > t.sram.bytes)
    out.push_back({"E0604", s.size(),
                   fmt::format("the stream uses {} bytes of sram, {} has {}", sizes.sram_bytes, t.name, t.sram.bytes)});
  Accumulations accumulations;
  for (size_t i = 0; i < s.size(); ++i) {
    Checker c(t, sizes, i, s[i], &out);
    accumulations.index = i;
    const Opcode o = isa::OpcodeOf(s[i]);
    c.Require(o != Opcode::End || i + 1 == s.size(), "END before the end");
    c.Require(isa::EngineRuns(s[i].engine, o), "engine {} does not run it", isa::Name(s[i].engine));
    c.Require(s[i].wait[static_cast<int>(s[i].engine)] == 0, "waits for its own engine");
    if (CheckAccesses(c))
      std::visit([&](const auto &body) { CheckCommand(c, body); }, s[i].body);
    accumulations.Next(c);
    if (o == Opcode::End)
      accumulations.End(c);
  }
  if (!out.empty())
    return out;
  const std::vector<size_t> order = Replay(s, &out);
  if (out.empty())
    FindRaces(s, order, &out);
  return out;
}

Status ToStatus(const std::vector<Finding> &findings) {
  if (findings.empty())
    return OkStatus();
  std::string text = findings[0].text;
  if (findings.size() > 1)
    text += fmt::format(" (and {} more)", findings.size() - 1);
  return Error(findings[0].code, std::move(text),
               "npuc never makes such a file: report it; for hand-made streams, npu-objdump --verify lists all");
}

} // namespace npuc::verify
