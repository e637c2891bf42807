// IR text -> module -> text: reading never crashes, and what was read and is sound prints as text that reads back the
// same.
#include <cstdint>
#include <cstdlib>

#include "compiler/ir/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto m = npuc::ParseModule({reinterpret_cast<const char *>(data), size});
  if (!m.ok())
    return 0;
  const std::string text = npuc::Print(**m);
  auto back = npuc::ParseModule(text);
  if (!back.ok() || npuc::Hash(**m) != npuc::Hash(**back) || npuc::Print(**back) != text)
    std::abort();
  if (npuc::Verify(**m).ok() && npuc::Hash(*npuc::Clone(**m)) != npuc::Hash(**m))
    std::abort();
  return 0;
}
