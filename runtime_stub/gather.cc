// GATHER: rows of a table by i32 indices. A negative index counts from the end, once; what is still outside is clamped,
// or an error in checked mode. Cost: the rows gathered.
#include <algorithm>
#include <cstring>

#include "compiler/support/diagnostic.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {

Status ExecuteGather(const isa::Gather &c, const Context &x) {
  const Memory &m = x.memory;
  const int64_t rows = c.table.w, elem = c.table.elem_bytes();
  for (int64_t i = 0; i < c.out.w; ++i) {
    const int64_t given = ReadInt(m.At(c.indices, 0, 0, i, 0), c.indices.dtype);
    int64_t row = given < 0 ? given + rows : given;
    if (row < 0 || row >= rows) {
      if (x.strict_indices)
        return Error("E0703", fmt::format("index {} (entry {}) is outside a table of {} rows", given, i, rows),
                     "check the inputs: ids that belong to another vocabulary are a frequent cause");
      row = std::clamp<int64_t>(row, 0, rows - 1);
    }
    for (int64_t ch = 0; ch < c.out.c;) {
      int64_t run = 1;
      if (!x.reference)
        run = std::min<int64_t>({c.table.c_block - (c.table.c0 + ch) % c.table.c_block,
                                 c.out.c_block - (c.out.c0 + ch) % c.out.c_block, c.out.c - ch});
      std::memmove(m.At(c.out, 0, 0, i, ch), m.At(c.table, 0, 0, row, ch), run * elem);
      ch += run;
    }
  }
  FillTail(m, c.out);
  return OkStatus();
}

} // namespace npuc::runtime
