// A function compiled once for each named instruction set ("avx2") and once for the baseline; the loader takes the best
// that the processor has. The same bits either way: products and sums are rounded apart (-ffp-contract=off).
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define NPUC_CLONES(...) __attribute__((target_clones(__VA_ARGS__, "default")))
#else
#define NPUC_CLONES(...)
#endif
