#include "third_party/onednn/lazy.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

// Made by CMake from the library's symbol table, as lazy_stubs.S.
extern "C" {
extern void *npuc_onednn_table[];
extern const char *const npuc_onednn_names[];
void *npuc_onednn_resolve(unsigned long index);
}

namespace npuc {
namespace {

void *Library() {
  static void *const library = dlopen(NPUC_ONEDNN_SONAME, RTLD_LAZY | RTLD_LOCAL);
  return library;
}

} // namespace

bool OneDnnAvailable() {
  return Library() != nullptr;
}

} // namespace npuc

#if defined(__SANITIZE_ADDRESS__)
// The leak checker follows thread-local blocks that the interceptor recorded, and those of OpenMP's threads, loaded
// late, lead it astray.
extern "C" const char *__asan_default_options() {
  return "intercept_tls_get_addr=0";
}
#endif

// Threads may race here: they store the same address.
void *npuc_onednn_resolve(unsigned long index) {
  void *library = npuc::Library();
  void *function = library ? dlsym(library, npuc_onednn_names[index]) : nullptr;
  if (!function) {
    std::fprintf(stderr, "internal error: oneDNN: %s\n", dlerror());
    std::abort();
  }
  __atomic_store_n(&npuc_onednn_table[index], function, __ATOMIC_RELAXED);
  return function;
}
