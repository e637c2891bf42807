// Bytes that views cost on SRAM and DDR.
//
// SRAM is served in granules of 16 bytes, so short runs cost more than their bytes. DDR is served in bursts; a transfer
// whose runs have gaps of less than a burst touches every burst of the span, so such runs are merged into one, and of
// what remains the bursts are counted exactly: a run's bursts depend only on its start modulo the burst, and the
// starts' residues are convolved dim by dim. No loop over runs.
#include <algorithm>

#include "backend/isa/byte_box.h"
#include "backend/timing/runs.h"
#include "backend/timing/timing.h"
#include "compiler/support/int_math.h"

namespace npuc::timing {

using isa::ByteBox;
using isa::View;

namespace {

bool IsBlocked(const View &v, const Target &t) {
  return v.c_block == t.C2(v.dtype);
}

// Dims in the view's order; runs that continue each other in that order are one.
int64_t OrderedRunBytes(const ByteBox &b) {
  int64_t run = b.run, runs = 1;
  bool growing = true;
  for (int i = b.num_dims - 1; i >= 0; --i) {
    const ByteBox::Dim &d = b.dims[i];
    if (d.count == 1 || d.stride == 0)
      continue;
    if (growing && d.stride == run) {
      run *= d.count;
    } else {
      growing = false;
      runs *= d.count;
    }
  }
  return runs * RoundUp(run, kSramGranule);
}

int64_t BurstBytes(const ByteBox &normal, int64_t burst) {
  int64_t run = normal.run;
  int dims = normal.num_dims;
  for (; dims && normal.dims[dims - 1].stride - run < burst; --dims)
    run += (normal.dims[dims - 1].count - 1) * normal.dims[dims - 1].stride;
  const int64_t mask = burst - 1; // a power of two
  const int64_t base = normal.base & mask;
  auto bursts = [&](int64_t residue) { return ((residue + run - 1) / burst + 1) * burst; };
  int64_t odd = 0;
  int64_t runs = 1;
  for (int i = 0; i < dims; ++i) {
    odd |= normal.dims[i].stride & mask;
    runs *= normal.dims[i].count;
  }
  if (odd == 0)
    return runs * bursts(base);
  // Residues are base + multiples of the greatest power of two that divides all strides.
  const int64_t step = odd & -odd, slots = burst / step;
  std::vector<int64_t> count(slots), next(slots);
  count[0] = 1;
  for (int i = 0; i < dims; ++i) {
    const int64_t shift = (normal.dims[i].stride & mask) / step, n = normal.dims[i].count;
    if (shift == 0) {
      for (int64_t &c : count)
        c *= n;
      continue;
    }
    // How often each multiple of `shift` occurs among n of them.
    std::fill(next.begin(), next.end(), 0);
    const int64_t period = slots / std::min(slots, shift & -shift);
    for (int64_t k = 0; k < std::min(n, period); ++k) {
      const int64_t times = (n - k + period - 1) / period, by = k * shift % slots;
      for (int64_t s = 0; s < slots; ++s)
        if (count[s])
          next[(s + by) % slots] += count[s] * times;
    }
    count.swap(next);
  }
  int64_t bytes = 0;
  for (int64_t s = 0; s < slots; ++s)
    if (count[s])
      bytes += count[s] * bursts((base + s * step) & mask);
  return bytes;
}

} // namespace

int64_t PaddedElements(const View &v, const Target &t) {
  const int64_t pixels = int64_t{v.n} * v.h * v.w;
  if (!IsBlocked(v, t))
    return pixels * v.c;
  return pixels * CeilDiv(int64_t{v.c0} + v.c, v.c_block) * v.c_block;
}

int64_t SramBytes(const View &v, const Target &t) {
  if (IsBlocked(v, t)) {
    ByteBox b;
    b.run = int64_t{v.c_block} * v.elem_bytes();
    b.Add(v.n, v.stride_n);
    b.Add(CeilDiv(int64_t{v.c0} + v.c, v.c_block), v.stride_c1);
    b.Add(v.h, v.stride_h);
    b.Add(v.w, v.stride_w);
    return OrderedRunBytes(b);
  }
  int64_t bytes = 0;
  for (const ByteBox &b : isa::ByteBoxesOf(v))
    bytes += OrderedRunBytes(b);
  return bytes;
}

int64_t DdrBytes(const View &v, const Target &t) {
  int64_t bytes = 0;
  for (ByteBox b : isa::ByteBoxesOf(v)) {
    b.Normalise();
    bytes += BurstBytes(b, t.dma.ddr_burst_bytes);
  }
  return bytes;
}

int64_t RangeDdrBytes(int64_t offset, int64_t bytes, const Target &t) {
  const int64_t burst = t.dma.ddr_burst_bytes;
  return bytes <= 0 ? 0 : (((offset & (burst - 1)) + bytes - 1) / burst + 1) * burst;
}

int64_t RowsDdrBytes(int64_t rows, int64_t row_bytes, int64_t offset, int64_t stride, const Target &t) {
  // Which rows is data, so each pays for the worst start that base and stride allow.
  const int64_t burst = t.dma.ddr_burst_bytes;
  const int64_t low = (offset | stride) & (burst - 1), step = low == 0 ? burst : low & -low;
  return rows * ((burst - step + row_bytes - 1) / burst + 1) * burst;
}

} // namespace npuc::timing
