// Highway's run-time choice of instruction set, the two functions of hwy/targets.h that dynamic dispatch calls. The
// distribution has the library only as a shared object, whose constructors measure the CPU's timer for milliseconds at
// each start of a program that may not execute a single kernel.
//
// Each target needs what Highway compiles it with. The environment variable HWY_DISABLED_TARGETS (a number, bits as in
// hwy/detect_targets.h) takes targets away: every target must give the same bits, and the tests try them.
#include "hwy/targets.h"

#include <cstdlib>

namespace hwy {
namespace {

int64_t CpuTargets() {
  int64_t targets = HWY_ENABLED_BASELINE;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  const auto has = [](auto... supported) { return (... && (supported != 0)); };
  if (has(__builtin_cpu_supports("ssse3")))
    targets |= HWY_SSSE3;
  const bool sse4 =
      has(__builtin_cpu_supports("sse4.2"), __builtin_cpu_supports("pclmul"), __builtin_cpu_supports("aes"));
  if (sse4)
    targets |= HWY_SSE4;
  const bool avx2 =
      sse4 && has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("f16c"),
                  __builtin_cpu_supports("bmi"), __builtin_cpu_supports("bmi2"), __builtin_cpu_supports("lzcnt"));
  if (avx2)
    targets |= HWY_AVX2;
  const bool avx3 = avx2 && has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512vl"),
                                __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512bw"),
                                __builtin_cpu_supports("avx512cd"));
  if (avx3)
    targets |= HWY_AVX3;
  if (avx3 && has(__builtin_cpu_supports("avx512vnni"), __builtin_cpu_supports("vpclmulqdq"),
                  __builtin_cpu_supports("avx512vbmi"), __builtin_cpu_supports("avx512vbmi2"),
                  __builtin_cpu_supports("vaes"), __builtin_cpu_supports("avx512vpopcntdq"),
                  __builtin_cpu_supports("avx512bitalg"), __builtin_cpu_supports("gfni")))
    targets |= HWY_AVX3_DL;
#endif
  return targets;
}

} // namespace

int64_t SupportedTargets() {
  static const int64_t targets = [] {
    const char *disabled = std::getenv("HWY_DISABLED_TARGETS");
    return CpuTargets() & ~(disabled ? std::strtoll(disabled, nullptr, 0) & ~int64_t{HWY_ENABLED_BASELINE} : 0);
  }();
  return targets;
}

ChosenTarget &GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

} // namespace hwy
