// Rules of single commands. Internal to verify.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "backend/isa/isa.h"
#include "backend/isa/names.h"
#include "backend/verify/verify.h"

namespace npuc::verify {

// Collects what is wrong with one command.
class Checker {
public:
  Checker(const Target &t, const MemorySizes &sizes, size_t index, const isa::Command &c, std::vector<Finding> *out)
      : t(t), sizes(sizes), command(c), index_(index), out_(out) {}

  const Target &t;
  const MemorySizes &sizes;
  const isa::Command &command;

  // Returns ok.
  template <class... Args> bool Require(bool ok, fmt::format_string<Args...> f, Args &&...args) {
    if (!ok)
      Add(fmt::format(f, std::forward<Args>(args)...));
    return ok;
  }
  void Add(const std::string &what);

private:
  size_t index_;
  std::vector<Finding> *out_;
};

// View and range rules of every access of the command: well formed, in bounds, written views without alias, in SRAM and
// aligned where the engine demands it, input and output of one command apart. False if anything is wrong.
bool CheckAccesses(Checker &c);
// One view of them.
bool CheckView(Checker &c, const isa::View &v, bool write, std::string_view what);

// A view that may be absent is not asked.
bool CheckQuant(Checker &c, const isa::View &v, const isa::Quant &q, std::string_view name);
std::string DimsText(const isa::View &v);
inline bool SameDims(const isa::View &a, const isa::View &b) {
  return a.n == b.n && a.h == b.h && a.w == b.w && a.c == b.c;
}
// Types that the VPU computes on: the target's, bool, i32, f32.
bool VpuType(const Target &t, DType d);

void CheckCommand(Checker &c, const isa::End &);
void CheckCommand(Checker &c, const isa::Dma &d);
void CheckCommand(Checker &c, const isa::Gather &g);
void CheckCommand(Checker &c, const isa::Conv &v);
void CheckCommand(Checker &c, const isa::MatMul &m);
void CheckCommand(Checker &c, const isa::Elem &e);
void CheckCommand(Checker &c, const isa::Lut &l);
void CheckCommand(Checker &c, const isa::Pool &p);
void CheckCommand(Checker &c, const isa::Reduce &r);
void CheckCommand(Checker &c, const isa::Norm &n);
void CheckCommand(Checker &c, const isa::Resize &r);

} // namespace npuc::verify
