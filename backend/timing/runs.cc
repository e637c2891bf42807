// Runs of a copy that are contiguous in source and destination. The channel axis is cut where either side changes
// block; where both block sizes divide each other the cuts form regular dims (block of the larger, block of the
// smaller, lane), else they are listed one by one. Then dims that continue the run on both sides are folded into it, in
// whatever order they come.
#include "backend/timing/runs.h"

#include <algorithm>
#include <array>

#include "backend/timing/timing.h"

namespace npuc::timing {

using isa::View;

namespace {

struct Dim {
  int64_t count, src, dst; // strides in bytes
};

class Counter {
public:
  Counter(const View &src, const View &dst) : src_(src), dst_(dst) {}

  CommonRuns Count() {
    const bool src_one = int64_t{src_.c0} + src_.c <= src_.c_block, dst_one = int64_t{dst_.c0} + dst_.c <= dst_.c_block;
    const int64_t bs = src_one ? 0 : src_.c_block, bd = dst_one ? 0 : dst_.c_block; // 0: no cut
    const int64_t big = std::max(bs, bd), small = bs && bd ? std::min(bs, bd) : big;
    const int64_t c = src_.c;
    if (big == 0) {
      Nest({{c, es(), ed()}}, 1);
      return out_;
    }
    // Channels until a side with blocks starts one; both must then start one together.
    const int64_t head_s = bs ? (bs - src_.c0) % bs : 0, head_d = bd ? (bd - dst_.c0) % bd : 0;
    const bool regular =
        big % small == 0 && (bs && bd ? (bs >= bd ? head_d == head_s % bd : head_s == head_d % bs) : true);
    if (!regular) {
      Pieces(0, c);
      return out_;
    }
    const int64_t head = std::min(c, std::max(head_s, head_d)), body = (c - head) / big;
    Pieces(0, head);
    if (body) {
      auto stride = [&](const View &v, bool one,
                        int64_t step) { // of `step` channels, a multiple of the block or within one
        if (one || step < v.c_block)
          return step * v.elem_bytes();
        return step / v.c_block * v.stride_c1;
      };
      Nest({{body, stride(src_, src_one, big), stride(dst_, dst_one, big)},
            {big / small, stride(src_, src_one, small), stride(dst_, dst_one, small)},
            {small, small == 1 ? 0 : es(), small == 1 ? 0 : ed()}},
           1);
    }
    Pieces(head + body * big, c);
    return out_;
  }

private:
  int64_t es() const { return src_.elem_bytes(); }
  int64_t ed() const { return dst_.elem_bytes(); }

  void Pieces(int64_t from, int64_t to) {
    while (from < to) {
      const int64_t left_s = src_.c_block - (src_.c0 + from) % src_.c_block,
                    left_d = dst_.c_block - (dst_.c0 + from) % dst_.c_block;
      const int64_t len = std::min({to - from, left_s, left_d});
      Nest({{len, es(), ed()}}, 1);
      from += len;
    }
  }
  void Nest(std::initializer_list<Dim> channels, int64_t run) {
    std::array<Dim, 6> dims;
    int n = 0;
    auto add = [&](const Dim &d) {
      if (d.count > 1)
        dims[n++] = d;
    };
    for (const Dim &d : channels)
      add(d);
    add({src_.n, src_.stride_n, dst_.stride_n});
    add({src_.h, src_.stride_h, dst_.stride_h});
    add({src_.w, src_.stride_w, dst_.stride_w});
    for (bool grew = true; grew;) {
      grew = false;
      for (int i = 0; i < n; ++i)
        if (dims[i].src == run * es() && dims[i].dst == run * ed()) {
          run *= dims[i].count;
          dims[i] = dims[--n];
          grew = true;
          break;
        }
    }
    int64_t runs = 1;
    for (int i = 0; i < n; ++i)
      runs *= dims[i].count;
    auto granules = [](int64_t bytes) { return (bytes + kSramGranule - 1) / kSramGranule * kSramGranule; };
    out_.longest = std::max(out_.longest, run);
    out_.src_granules += runs * granules(run * es());
    out_.dst_granules += runs * granules(run * ed());
  }

  const View &src_, &dst_;
  CommonRuns out_;
};

} // namespace

CommonRuns CommonRunsOf(const View &src, const View &dst) {
  return Counter(src, dst).Count();
}

int64_t CommonRunBytes(const View &src, const View &dst) {
  return CommonRunsOf(src, dst).longest * std::min(src.elem_bytes(), dst.elem_bytes());
}

} // namespace npuc::timing
