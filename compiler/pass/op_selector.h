// Which nodes a user means by an entry of an operator list: an operator's name, and conditions in parentheses.
//
//   Resize                        every Resize
//   com.microsoft::Gelu           an operator of another domain
//   Resize(mode=cubic)            attribute equal; also !=, and < <= > >= on numbers; absent attributes count as
//   unequal Transpose(bytes>1MiB)         bytes of the greatest operand or result; KiB, MiB, GiB (and KB, MB, GB,
//   powers of 1000) may follow a number Conv(group>1, dtype=f32)      dtype and rank of the first operand; conditions
//   are joined by "and"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace npuc {

struct OpSelector {
  enum class Relation : uint8_t { Equal, Unequal, Less, LessEqual, Greater, GreaterEqual };
  struct Condition {
    std::string key;
    Relation relation;
    std::string value;
    bool operator==(const Condition &) const = default;
  };

  std::string text; // as written
  std::string domain, op;
  std::vector<Condition> conditions;

  bool Matches(const Node &n) const;
  bool operator==(const OpSelector &) const = default;
};

// Errors: E0501, with what was found and what may stand there. An operator that LookupOp does not know is an error too.
StatusOr<OpSelector> ParseOpSelector(std::string_view text);

} // namespace npuc
