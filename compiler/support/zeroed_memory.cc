#include "compiler/support/zeroed_memory.h"

#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace npuc {

std::shared_ptr<void> ZeroedMemory(size_t bytes) {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) // which watches the ends of malloc's blocks only
  constexpr size_t kHuge = size_t{2} << 20;
  if (bytes >= 2 * kHuge) {
    // Begins on a huge page's border; the last one may be a part, on small pages.
    const size_t length = bytes + kHuge;
    void *const at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      return nullptr;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(at) + kHuge - 1) / kHuge * kHuge;
    ::madvise(reinterpret_cast<void *>(begin), bytes / kHuge * kHuge, MADV_HUGEPAGE);
    return std::shared_ptr<void>(reinterpret_cast<void *>(begin), [at, length](void *) { ::munmap(at, length); });
  }
#endif
  void *const p = std::calloc(bytes ? bytes : 1, 1);
  return p ? std::shared_ptr<void>(p, std::free) : nullptr;
}

} // namespace npuc
