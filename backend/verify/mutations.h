// Small damages to a stream, one at a time, to test verifiers and executors: a wait dropped or lowered, an address
// moved.
#pragma once

#include <string>
#include <vector>

#include "backend/isa/commands.h"

namespace npuc::verify {

struct Mutation {
  enum class Kind : uint8_t { DropWait, LowerWait, MoveAddress };
  Kind kind = Kind::DropWait;
  size_t command = 0;
  int which = 0;     // the wait's engine, or the address's number in ForEachAddress order
  int64_t delta = 0; // MoveAddress: bytes
  std::string text;  // what it does, for messages
};

// Every wait dropped, every wait above 1 lowered by one, every address moved by each of `deltas`.
std::vector<Mutation> EnumerateMutations(const isa::Stream &s, const std::vector<int64_t> &deltas);
isa::Stream Apply(const isa::Stream &s, const Mutation &m);

} // namespace npuc::verify
