#include "backend/verify/mutations.h"

#include <fmt/format.h>

#include "backend/isa/isa.h"

namespace npuc::verify {

std::vector<Mutation> EnumerateMutations(const isa::Stream &s, const std::vector<int64_t> &deltas) {
  std::vector<Mutation> out;
  for (size_t i = 0; i < s.size(); ++i) {
    const std::string at = fmt::format("command {} ({})", i, isa::Name(isa::OpcodeOf(s[i])));
    for (int e = 0; e < isa::kNumEngines; ++e) {
      const auto engine = isa::Name(static_cast<isa::Engine>(e));
      if (s[i].wait[e] > 0)
        out.push_back({Mutation::Kind::DropWait, i, e, 0, fmt::format("{} without its wait on {}", at, engine)});
      if (s[i].wait[e] > 1)
        out.push_back(
            {Mutation::Kind::LowerWait, i, e, 0, fmt::format("{} with its wait on {} lowered by one", at, engine)});
    }
    isa::Command copy = s[i];
    int count = 0;
    isa::ForEachAddress(copy, [&](isa::Address &) { ++count; });
    for (int k = 0; k < count; ++k)
      for (int64_t d : deltas)
        out.push_back(
            {Mutation::Kind::MoveAddress, i, k, d, fmt::format("{} with its address {} moved by {}", at, k, d)});
  }
  return out;
}

isa::Stream Apply(const isa::Stream &s, const Mutation &m) {
  isa::Stream out = s;
  isa::Command &c = out[m.command];
  switch (m.kind) {
  case Mutation::Kind::DropWait:
    c.wait[m.which] = 0;
    break;
  case Mutation::Kind::LowerWait:
    --c.wait[m.which];
    break;
  case Mutation::Kind::MoveAddress: {
    int k = 0;
    isa::ForEachAddress(c, [&](isa::Address &a) {
      if (k++ == m.which)
        a.offset += m.delta;
    });
    break;
  }
  }
  return out;
}

} // namespace npuc::verify
