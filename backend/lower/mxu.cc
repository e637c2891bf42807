// Matrix tiling. Four nested choices:
//
//   chunk   output channels whose weights are on chip together        (one DMA of weights and table each)
//   block   output box whose input is on chip together                (one DMA of input, with halo, unless the tensor
//   lives on chip) tile    what one command computes: fits one accumulator bank      (no DMA) slice   input channels
//   per accumulation step, only when nothing else fits
//
// The search enumerates chunk and block counts (1, 2, 3, 4, 6, 8, ... pieces, evened out so that 127 rows in 2 pieces
// are 64 + 63), takes the best command tile for each, and prices a choice as max(MXU time, DDR time): the machine
// overlaps the two. Both loop orders of chunks and blocks are tried; the inner one's data is fetched again for every
// step of the outer one. Cost: about 100 candidates x 30 tiles per layer, closed formulas, microseconds each.
#include "backend/lower/mxu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "backend/isa/isa.h"
#include "backend/lower/broadcast.h"
#include "backend/timing/timing.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/int_math.h"

namespace npuc::lower {

using isa::ConvMode;
using isa::View;
using program::Box;

namespace {

// Rows (or columns) of input that `count` outputs from `first` need, clamped to the tensor; and the padding on both
// sides.
struct Span {
  int64_t start, size, pad_before, pad_after;
};
Span InputSpan(int64_t first, int64_t count, int64_t stride, int64_t kernel, int64_t dilation, int64_t pad,
               int64_t extent) {
  const int64_t lo = first * stride - pad;
  const int64_t hi = lo + (count - 1) * stride + (kernel - 1) * dilation + 1;
  Span s;
  s.start = std::clamp<int64_t>(lo, 0, extent - 1);
  const int64_t end = std::clamp<int64_t>(hi, s.start + 1, extent);
  s.size = end - s.start;
  s.pad_before = std::max<int64_t>(0, s.start - lo);
  s.pad_after = std::max<int64_t>(0, hi - end);
  return s;
}

int64_t InputExtent(int64_t count, int64_t stride, int64_t kernel, int64_t dilation, int64_t extent) {
  return std::min(extent, (count - 1) * stride + (kernel - 1) * dilation + 1);
}

// Piece counts to try for an extent: 1, 2, 3, 4, 6, 8, 12, 16, ... and the extent itself.
std::vector<int64_t> PieceCounts(int64_t extent) {
  std::vector<int64_t> r;
  for (int64_t k = 1; k < extent; k = k < 4 ? k + 1 : (k & (k - 1)) == 0 ? k + k / 2 : k + k / 3)
    r.push_back(k);
  r.push_back(extent);
  return r;
}

int64_t AccBytesPerElement(isa::AccType a) {
  return a == isa::AccType::I48 ? 8 : 4;
}

// DDR bytes paid per byte of runs this long that are apart from one another.
double BurstFactor(int64_t run, const Target &t) {
  return static_cast<double>(RoundUp(run, t.dma.ddr_burst_bytes)) / static_cast<double>(run);
}

// Output channels come in these steps.
int64_t OcUnit(const MxuProblem &p, const Target &t) {
  return p.mode == ConvMode::Grouped ? p.group_oc() : t.mxu.oc;
}

// One command's tile as the timing model's formulas see it; a matrix product is a 1x1 convolution.
timing::ConvShape ShapeOf(const MxuProblem &p, isa::Traversal traversal, int64_t positions, int64_t oc, int64_t ic) {
  timing::ConvShape s;
  s.mode = p.mode;
  s.traversal = traversal;
  s.x = p.x;
  s.acc = p.acc;
  s.positions = positions;
  s.oc = oc;
  s.groups = p.mode == ConvMode::Grouped ? std::max<int64_t>(1, oc / p.group_oc()) : 1;
  s.ic = p.mode == ConvMode::Grouped ? s.groups * ic : p.mode == ConvMode::Depthwise ? oc : ic;
  s.kh = p.kh;
  s.kw = p.kw;
  return s;
}

// Modelled time of one command on its own, in cycles: array, output stage, weights, SRAM; without issue.
double CommandCycles(const MxuProblem &p, const Target &t, int64_t th, int64_t tw, int64_t toc, int64_t ic,
                     isa::Traversal traversal) {
  const timing::ConvShape shape = ShapeOf(p, traversal, th * tw, toc, ic);
  const double mac = static_cast<double>(timing::ConvMac(shape, t)) / static_cast<double>(timing::kUnitsPerCycle);
  const double in_channels = static_cast<double>(shape.ic);
  const double out_elems = static_cast<double>(th * tw * toc);
  const double output = out_elems * p.stage_passes / t.mxu.PpuRate(p.x).ToDouble();
  const double weights = static_cast<double>(WeightBytes(p, t, toc, ic)) / t.mxu.weight_bytes_per_cycle.ToDouble();
  double in_bytes = static_cast<double>(InputExtent(th, p.stride_h, p.kh, p.dilation_h, p.ih) *
                                        InputExtent(tw, p.stride_w, p.kw, p.dilation_w, p.iw) * ByteSize(p.x)) *
                    in_channels;
  if (in_bytes > static_cast<double>(t.mxu.ibuf_bytes))
    in_bytes *= static_cast<double>(CeilDiv(toc, t.mxu.oc));
  const double out_run =
      static_cast<double>(RoundUp(toc * ByteSize(p.out), 16)) / static_cast<double>(toc * ByteSize(p.out));
  const double sram = (in_bytes + static_cast<double>(WeightBytes(p, t, toc, ic)) +
                       out_elems * ByteSize(p.out) * out_run + out_elems * p.operand_bytes) /
                      t.sram.bytes_per_cycle.ToDouble();
  return std::max({std::max(mac, output) + static_cast<double>(t.mxu.pipeline_fill), weights, sram});
}

} // namespace

isa::Traversal FastestTraversal(const MxuProblem &p, const Target &t, int64_t ic) {
  isa::Traversal best = isa::Traversal::Depth;
  if (p.matmul)
    return best;
  auto steps = [&](isa::Traversal k) {
    return timing::ConvSteps(ShapeOf(p, k, 1, p.mode == ConvMode::Grouped ? p.group_oc() : 1, ic), t);
  };
  auto consider = [&](isa::Traversal k) {
    if (steps(k) < steps(best))
      best = k;
  };
  const bool nhwc = !p.ifm_on_chip || p.in.c_block >= p.in.c0 + p.in.c; // what is fetched lies in NHWC on chip
  if (p.mode == ConvMode::Dense && nhwc) {
    if (t.mxu.HasTraversal(Traversal::Row) && ic <= t.mxu.ic)
      consider(isa::Traversal::Row);
    if (t.mxu.HasTraversal(Traversal::Kernel) && ic <= 4)
      consider(isa::Traversal::Kernel);
  }
  if (t.mxu.HasTraversal(Traversal::PartKernel))
    consider(isa::Traversal::PartKernel);
  return best;
}

int64_t WeightBytes(const MxuProblem &p, const Target &t, int64_t oc, int64_t ic) {
  if (p.matmul)
    return isa::PackedMatMulWeightBytes(t, p.x, p.w, ic, oc);
  switch (p.mode) {
  case ConvMode::Dense:
    return isa::PackedConvWeightBytes(t, p.x, p.w, p.mode, oc, ic, p.kh, p.kw, 1);
  case ConvMode::Depthwise:
    return isa::PackedConvWeightBytes(t, p.x, p.w, p.mode, oc, 1, p.kh, p.kw, oc);
  case ConvMode::Grouped: {
    const int64_t groups = oc / p.group_oc();
    return isa::PackedConvWeightBytes(t, p.x, p.w, p.mode, oc, p.group_ic(), p.kh, p.kw, groups);
  }
  }
  return 0;
}

namespace {

// Bytes of input that an output box of bh x bw over `chunk` output channels reads, `ic` input channels of each group.
int64_t InputBytes(const MxuProblem &p, int64_t bh, int64_t bw, int64_t chunk, int64_t ic) {
  const int64_t channels = p.mode == ConvMode::Dense       ? ic
                           : p.mode == ConvMode::Depthwise ? chunk
                                                           : chunk / p.group_oc() * p.group_ic();
  return InputExtent(bh, p.stride_h, p.kh, p.dilation_h, p.ih) * InputExtent(bw, p.stride_w, p.kw, p.dilation_w, p.iw) *
         channels * ByteSize(p.x);
}

// The user's tile: only channels are chosen. What is fetched at once is the tile, or all of it when tensors are on
// chip; dense problems may also accumulate slices of input channels.
StatusOr<MxuTiles> ChooseForTile(const MxuProblem &p, const Target &t, int64_t budget) {
  const int64_t h = std::min(p.tile->h, p.oh), w = std::min(p.tile->w, p.ow), unit = OcUnit(p, t);
  const int64_t bank = t.mxu.acc_bytes / 2 / AccBytesPerElement(p.acc) / RoundUp(unit, t.mxu.oc);
  const int64_t most = std::min<int64_t>(bank, t.limits.dims_max);
  if (h * w > bank || w > t.limits.dims_max || h > t.limits.dims_max)
    return TileRefused(*p.tile, fmt::format("an accumulator bank holds {} positions", bank),
                       fmt::format("give a tile of at most {} positions, for example {}x{}", bank,
                                   std::max<int64_t>(1, most / std::min(w, most)), std::min(w, most)));
  const bool resident = p.ifm_on_chip && p.ofm_on_chip && p.operand_bytes == 0;
  const int64_t bh = resident ? p.oh : h, bw = resident ? p.ow : w;
  const int64_t blocks = CeilDiv(p.oh, bh) * CeilDiv(p.ow, bw) * p.n;
  const double issue = static_cast<double>(t.issue_cycles), ddr_rate = t.dma.ddr_bytes_per_cycle.ToDouble();
  MxuTiles best;
  int64_t least = INT64_MAX; // bytes
  auto consider = [&](int64_t chunk, int64_t slice) {
    const int64_t slices = CeilDiv(p.group_ic(), slice), chunks = CeilDiv(p.oc, chunk);
    const int64_t weights = WeightBytes(p, t, chunk, slice) * (slices > 1 ? 2 : 1) + chunk * isa::kTableEntryBytes;
    const int64_t in = p.ifm_on_chip ? 0 : InputBytes(p, bh, bw, chunk, slice);
    const int64_t out = p.ofm_on_chip ? 0 : bh * bw * chunk * ByteSize(p.out);
    const int64_t operands = static_cast<int64_t>(p.operand_bytes * static_cast<double>(bh * bw * chunk));
    const int64_t bytes =
        weights * (chunks > 1 && slices == 1 ? 2 : 1) + (in + out + operands) * (blocks * chunks * slices > 1 ? 2 : 1);
    least = std::min(least, bytes);
    if (bytes > budget)
      return;
    const isa::Traversal traversal = FastestTraversal(p, t, slice);
    for (int64_t k : PieceCounts(CeilDiv(chunk, unit))) {
      const int64_t oc = std::min(chunk, RoundUp(CeilDiv(chunk, k), unit));
      if (h * w * RoundUp(oc, t.mxu.oc) * AccBytesPerElement(p.acc) > t.mxu.acc_bytes / 2 || (slices > 1 && oc < chunk))
        continue;
      const double count = static_cast<double>(CeilDiv(p.oh, h) * CeilDiv(p.ow, w) * p.n * chunks * CeilDiv(chunk, oc));
      const double compute =
          count * static_cast<double>(slices) * (issue + CommandCycles(p, t, h, w, oc, slice, traversal));
      const double ddr = static_cast<double>(blocks * chunks) *
                         static_cast<double>(slices * (weights + in) + out + operands) / ddr_rate;
      const double cycles = std::max(compute, ddr);
      if (best.chunk == 0 || cycles < best.cycles)
        best = {chunk, slices > 1 ? h : bh, slices > 1 ? w : bw, h, w, oc, slice, true, traversal, cycles};
    }
  };
  for (int64_t kc : PieceCounts(CeilDiv(p.oc, unit)))
    consider(std::min(p.oc, RoundUp(CeilDiv(p.oc, kc), unit)), p.group_ic());
  if (best.chunk == 0 && p.mode == ConvMode::Dense) {
    const int64_t grain = std::max<int64_t>(t.mxu.ic, t.C2(p.x));
    for (int64_t ks : PieceCounts(CeilDiv(p.ic, grain)))
      for (int64_t kc : PieceCounts(CeilDiv(p.oc, unit)))
        if (best.chunk == 0 && ks > 1)
          consider(std::min(p.oc, RoundUp(CeilDiv(p.oc, kc), unit)), std::min(p.ic, RoundUp(CeilDiv(p.ic, ks), grain)));
  }
  if (best.chunk == 0)
    return TileRefused(*p.tile, fmt::format("it needs {} bytes of on-chip memory, {} are free", least, budget),
                       "give a smaller tile, or none");
  return best;
}

} // namespace

StatusOr<MxuTiles> ChooseTiles(const MxuProblem &p, const Target &t, int64_t budget) {
  if (p.tile)
    return ChooseForTile(p, t, budget);
  const int64_t unit = OcUnit(p, t), ein = ByteSize(p.x), eout = ByteSize(p.out);
  const int64_t bank = t.mxu.acc_bytes / 2 / AccBytesPerElement(p.acc); // output elements of one command
  const double ddr_rate = t.dma.ddr_bytes_per_cycle.ToDouble();
  const double issue = static_cast<double>(t.issue_cycles);
  const int64_t limit = t.limits.dims_max;

  // Best command tile for a block and chunk: cycles of the whole block.
  struct Command {
    int64_t h = 0, w = 0, oc = 0;
    double cycles = 0;
    bool found = false;
  };
  auto best_command = [&](int64_t bh, int64_t bw, int64_t chunk, int64_t ic, isa::Traversal order) {
    Command best;
    for (int64_t k : PieceCounts(CeilDiv(chunk, unit))) {
      const int64_t oc = std::min(chunk, RoundUp(CeilDiv(chunk, k), unit));
      const int64_t positions = bank / RoundUp(oc, t.mxu.oc);
      if (positions < 1)
        continue;
      for (int64_t kw : PieceCounts(bw)) {
        const int64_t w = CeilDiv(bw, kw);
        if (w > positions || w > limit)
          continue;
        const int64_t nh = CeilDiv(bh, std::min({bh, positions / w, limit}));
        const int64_t h = CeilDiv(bh, nh);
        const double count = static_cast<double>(CeilDiv(chunk, oc) * CeilDiv(bw, w) * nh);
        const double c = count * (issue + CommandCycles(p, t, h, w, oc, ic, order));
        if (!best.found || c < best.cycles)
          best = {h, w, oc, c, true};
        if (w <= positions / 4 && best.found && kw > 1)
          break; // narrower only adds commands
      }
    }
    return best;
  };

  MxuTiles best;
  bool found = false;
  const bool resident = p.ifm_on_chip && p.ofm_on_chip && p.operand_bytes == 0;
  const isa::Traversal traversal = FastestTraversal(p, t, p.group_ic());
  const double weight_total = static_cast<double>((p.uniform_weight ? 0 : WeightBytes(p, t, p.oc, p.group_ic())) +
                                                  p.oc * isa::kTableEntryBytes);

  for (int64_t kc : PieceCounts(CeilDiv(p.oc, unit))) {
    const int64_t chunk = std::min(p.oc, RoundUp(CeilDiv(p.oc, kc), unit));
    const int64_t chunks = CeilDiv(p.oc, chunk);
    const int64_t weights =
        (WeightBytes(p, t, chunk, p.group_ic()) + chunk * isa::kTableEntryBytes) * (chunks > 1 ? 2 : 1);
    if (weights > budget)
      continue;
    bool fits_whole = false;
    for (int64_t kb : PieceCounts(p.oh)) {
      if (resident && kb > 1)
        break;
      const int64_t bh = CeilDiv(p.oh, kb);
      bool fits = false;
      for (int64_t kx : PieceCounts(p.ow)) {
        if (kx > 1 && (resident || kb < p.oh))
          break; // columns are split only when one row is too much
        const int64_t bw = CeilDiv(p.ow, kx);
        const int64_t blocks = CeilDiv(p.oh, bh) * CeilDiv(p.ow, bw) * p.n;
        const int64_t in = p.ifm_on_chip ? 0 : InputBytes(p, bh, bw, chunk, p.group_ic());
        const int64_t out = p.ofm_on_chip ? 0 : bh * bw * chunk * eout;
        const int64_t operands = static_cast<int64_t>(p.operand_bytes * static_cast<double>(bh * bw * chunk));
        if (weights + (in + out + operands) * (blocks * chunks > 1 ? 2 : 1) > budget)
          continue;
        fits = true;
        const Command cmd = best_command(bh, bw, chunk, p.group_ic(), traversal);
        if (!cmd.found)
          continue;
        const double compute = cmd.cycles * static_cast<double>(blocks * chunks);
        const bool dense = p.mode == ConvMode::Dense;
        // Halo included, one chunk's channels; channels apart cost whole bursts.
        const double in_once =
            static_cast<double>(in * blocks) * (dense || chunks == 1 ? 1.0 : BurstFactor(chunk * ein, t));
        const double io =
            static_cast<double>(out * blocks * chunks) * (chunks == 1 ? 1.0 : BurstFactor(chunk * eout, t)) +
            static_cast<double>(operands * blocks * chunks) * (chunks == 1 ? 1.0 : BurstFactor(chunk * eout, t));
        const double outer_w = weight_total +
                               in_once * static_cast<double>(dense && blocks > 1 ? chunks
                                                             : dense             ? 1
                                                                                 : chunks) +
                               io;
        const double outer_b = weight_total * static_cast<double>(chunks > 1 ? blocks : 1) +
                               in_once * static_cast<double>(dense ? 1 : chunks) + io;
        const double ddr = std::min(outer_w, outer_b) / ddr_rate;
        // Commands are cheap but not free to store and check; transfers have a latency that short blocks can't hide.
        const double transfers = static_cast<double>(blocks * chunks) * (in || out ? 12.0 : 2.0);
        const double cycles = std::max(compute, ddr) + std::min(compute, ddr) * 0.02 + transfers +
                              static_cast<double>(in + weights / (chunks > 1 ? 2 : 1)) / ddr_rate * 0.1;
        if (!found || cycles < best.cycles) {
          found = true;
          best = {chunk, bh, bw, cmd.h, cmd.w, cmd.oc, p.group_ic(), outer_w <= outer_b, traversal, cycles};
        }
        break;
      }
      if (fits && kb == 1)
        fits_whole = true;
      if (fits && kb > 64)
        break; // still smaller blocks only add halo
    }
    if (fits_whole && kc >= 16)
      break;
  }
  if (found)
    return best;

  // Slices of input channels: block = tile, one accumulation each.
  if (p.mode == ConvMode::Dense) {
    const int64_t grain = std::max<int64_t>(t.mxu.ic, t.C2(p.x));
    for (int64_t ks : PieceCounts(CeilDiv(p.ic, grain))) {
      const int64_t slice = RoundUp(CeilDiv(p.ic, ks), grain);
      const isa::Traversal tr = FastestTraversal(p, t, std::min(slice, p.ic));
      for (int64_t kc : PieceCounts(CeilDiv(p.oc, unit))) {
        const int64_t oc = std::min(p.oc, RoundUp(CeilDiv(p.oc, kc), unit));
        const int64_t positions = bank / RoundUp(oc, t.mxu.oc);
        if (positions < 1)
          continue;
        for (int64_t kx : PieceCounts(p.ow)) {
          const int64_t w = CeilDiv(p.ow, kx);
          if (w > positions || w > limit)
            continue;
          const int64_t h = std::min(p.oh, std::max<int64_t>(1, positions / w));
          for (int64_t hh = h; hh >= 1; hh = hh == 1 ? 0 : CeilDiv(hh, 2)) {
            const int64_t wb = WeightBytes(p, t, oc, std::min(slice, p.ic));
            const int64_t in = p.ifm_on_chip ? 0 : InputBytes(p, hh, w, oc, std::min(slice, p.ic));
            const int64_t out = p.ofm_on_chip ? 0 : hh * w * oc * eout;
            const int64_t operands = static_cast<int64_t>(p.operand_bytes * static_cast<double>(hh * w * oc));
            if (2 * (wb + in + out + operands) + oc * isa::kTableEntryBytes > budget)
              continue;
            const double tiles = static_cast<double>(CeilDiv(p.oh, hh) * CeilDiv(p.ow, w) * CeilDiv(p.oc, oc) * p.n);
            const double n_slices = static_cast<double>(CeilDiv(p.ic, slice));
            const double compute =
                tiles * n_slices * (issue + CommandCycles(p, t, hh, w, oc, std::min(slice, p.ic), tr));
            const double ddr =
                tiles * (n_slices * static_cast<double>(wb + in) + static_cast<double>(out + operands)) / ddr_rate;
            const double cycles = std::max(compute, ddr) + tiles * n_slices * 12;
            if (!found || cycles < best.cycles) {
              found = true;
              best = {oc, hh, w, hh, w, oc, slice, true, tr, cycles};
            }
          }
        }
      }
      if (found)
        return best;
    }
  }
  return Error("E0405",
               fmt::format("the smallest tile of this layer does not fit the on-chip memory: {} bytes are free for it, "
                           "one {}x{} window over {} "
                           "channels and its weights need more",
                           budget, p.kh, p.kw, p.group_ic()),
               "use a target with more SRAM, or keep this node on the host with --deny-node");
}

namespace {

// One const buffer for all weights and tables of the layer, in pieces as they are loaded: for each chunk its slices'
// weights, then its table.
struct ConstLayout {
  struct Piece {
    int64_t oc0, noc;
    std::vector<int64_t> slice_offset, slice_bytes;
    int64_t table_offset;
  };
  std::vector<Piece> chunks;
  int64_t bytes = 0;
};

ConstLayout LayOutConst(const MxuProblem &p, const MxuTiles &tiles, const Target &t) {
  ConstLayout l;
  if (p.uniform_weight)
    l.bytes = LowerContext::kPatternBytes; // all pieces of weights
  for (int64_t oc = 0; oc < p.oc; oc += tiles.chunk) {
    ConstLayout::Piece piece{oc, std::min(tiles.chunk, p.oc - oc), {}, {}, 0};
    for (int64_t ic = 0; ic < p.group_ic(); ic += tiles.slice_ic) {
      piece.slice_offset.push_back(p.uniform_weight ? 0 : l.bytes);
      piece.slice_bytes.push_back(
          RoundUp(WeightBytes(p, t, piece.noc, std::min(tiles.slice_ic, p.group_ic() - ic)), 16));
      if (!p.uniform_weight)
        l.bytes += piece.slice_bytes.back();
    }
    piece.table_offset = l.bytes;
    l.bytes = RoundUp(l.bytes + piece.noc * isa::kTableEntryBytes, 64);
    l.chunks.push_back(std::move(piece));
  }
  return l;
}

// Chunks are made apart from one another, a few of them together where they are small.
std::vector<program::Part> PartsOf(const std::shared_ptr<const ConstLayout> &layout, const MxuProblem &p,
                                   const MxuTiles &tiles, const PackWeights &weights, const PackTable &table) {
  constexpr int64_t kPartBytes = int64_t{1} << 20;
  std::vector<program::Part> parts;
  if (p.uniform_weight) {
    const int32_t code = *p.uniform_weight, one = BitWidth(p.w) == 4 ? (code & 15) * 0x11 : code;
    parts.push_back({0, LowerContext::kPatternBytes, [one, size = ByteSize(p.w)](uint8_t *dst) {
                       for (int64_t at = 0; at < LowerContext::kPatternBytes; at += size)
                         std::memcpy(dst + at, &one, size);
                     }});
  }
  const bool uniform = p.uniform_weight.has_value();
  auto begin_of = [layout, uniform](size_t chunk) {
    if (chunk == layout->chunks.size())
      return layout->bytes;
    return uniform ? layout->chunks[chunk].table_offset : layout->chunks[chunk].slice_offset[0];
  };
  for (size_t first = 0, last; first < layout->chunks.size(); first = last) {
    const int64_t from = begin_of(first);
    for (last = first + 1; last < layout->chunks.size() && begin_of(last + 1) - from <= kPartBytes;)
      ++last;
    parts.push_back(
        {from, begin_of(last) - from, [=, group_ic = p.group_ic(), slice_ic = tiles.slice_ic](uint8_t *dst) {
           for (size_t c = first; c < last; ++c) {
             const ConstLayout::Piece &piece = layout->chunks[c];
             for (size_t s = 0; s < (uniform ? 0 : piece.slice_offset.size()); ++s) {
               const int64_t ic0 = static_cast<int64_t>(s) * slice_ic;
               weights(piece.oc0, piece.noc, ic0, std::min(slice_ic, group_ic - ic0),
                       dst + piece.slice_offset[s] - from);
             }
             table(piece.oc0, piece.noc, dst + piece.table_offset - from);
           }
         }});
  }
  return parts;
}

} // namespace

Status EmitMxu(const MxuProblem &p, const MxuTiles &tiles, const Stage &stage, PackWeights weights, PackTable table,
               LowerContext &ctx) {
  const Target &t = ctx.target();
  const auto layout = std::make_shared<const ConstLayout>(LayOutConst(p, tiles, t));
  const int64_t slices = CeilDiv(p.group_ic(), tiles.slice_ic);
  const bool reuse =
      p.shared && p.shared->made && p.shared->chunk == tiles.chunk && p.shared->slice_ic == tiles.slice_ic;
  const program::BufferId constant =
      reuse ? p.shared->buffer
            : ctx.AddConst(layout->bytes, p.name + "/weights", PartsOf(layout, p, tiles, weights, table),
                           std::pair(tiles.chunk, tiles.slice_ic));
  if (p.shared)
    *p.shared = {true, tiles.chunk, tiles.slice_ic, constant};

  // Small second operands (per-channel vectors, scalars) come on chip once.
  std::vector<View> operand_whole(stage.operands.size());
  std::vector<bool> whole(stage.operands.size(), false);
  for (size_t i = 0; i < stage.operands.size(); ++i) {
    const Box all = Box::All(stage.operands[i].full);
    whole[i] = FetchBytes(ctx, stage.operands[i].full, all) <= std::min<int64_t>(4096, ctx.budget() / 16);
    if (whole[i])
      operand_whole[i] = FetchBroadcast(ctx, stage.operands[i].full, all, stage.operands[i].name);
  }

  struct LoadedWeights {
    int64_t chunk = -1;
    isa::Address weights, table;
  } loaded;
  struct LoadedInput {
    Box box{{-1, 0, 0, 0}, {}};
    View view;
  } input;

  // Weights of one value serve every command of the layer: as many as the greatest one takes.
  std::optional<isa::Address> uniform;
  auto load_weights = [&](const ConstLayout::Piece &piece, size_t slice) {
    if (!p.uniform_weight)
      return ctx.LoadConst(constant, piece.slice_offset[slice], piece.slice_bytes[slice], p.name + "/w");
    if (!uniform)
      uniform = ctx.LoadPattern(constant, 0, WeightBytes(p, t, tiles.tile_oc, tiles.slice_ic), p.name + "/w");
    return *uniform;
  };

  auto fetch_input = [&](const Box &box) {
    if (input.box.start != box.start || input.box.size != box.size) {
      input.box = box;
      input.view = ctx.Fetch(p.in, box, p.name + "/in");
    }
    return input.view;
  };

  auto input_channels = [&](int64_t oc0, int64_t noc) -> std::pair<int64_t, int64_t> {
    switch (p.mode) {
    case ConvMode::Dense:
      return {0, p.ic};
    case ConvMode::Depthwise:
      return {oc0, noc};
    case ConvMode::Grouped:
      return {oc0 / p.group_oc() * p.group_ic(), noc / p.group_oc() * p.group_ic()};
    }
    return {0, p.ic};
  };

  // One command: output box (absolute) within a block; `in` is the block's input view whose element (0,0,0,0) is
  // (rows0, cols0, ch0).
  auto emit = [&](const View &in, const Span &rows, const Span &cols, const View &out, isa::Address w, int64_t wbytes,
                  isa::Address tab, int64_t noc, isa::Accumulate acc,
                  const std::array<isa::StageOperand, 2> &operands) {
    const bool last = acc == isa::Accumulate::Single || acc == isa::Accumulate::Finish;
    if (p.matmul) {
      isa::MatMul m;
      m.a = in;
      m.out = out;
      m.weights = w;
      m.weight_dtype = p.w;
      m.weight_bytes = static_cast<uint32_t>(wbytes);
      m.table = tab;
      m.a_zero = p.in_zero;
      m.acc = p.acc;
      m.accumulate = acc;
      if (last) {
        m.operands = operands;
        m.stage = stage.ops;
      }
      ctx.Mxu(std::move(m));
      return;
    }
    isa::Conv c;
    c.in = in;
    c.out = out;
    c.weights = w;
    c.weight_dtype = p.w;
    c.weight_bytes = static_cast<uint32_t>(wbytes);
    c.table = tab;
    c.mode = p.mode;
    c.groups = static_cast<uint32_t>(p.mode == ConvMode::Grouped ? noc / p.group_oc() : 1);
    c.kernel_h = p.kh, c.kernel_w = p.kw, c.stride_h = p.stride_h, c.stride_w = p.stride_w;
    c.dilation_h = p.dilation_h, c.dilation_w = p.dilation_w;
    c.pad_top = rows.pad_before, c.pad_bottom = rows.pad_after, c.pad_left = cols.pad_before,
    c.pad_right = cols.pad_after;
    c.in_zero = p.in_zero;
    c.acc = p.acc;
    c.accumulate = acc;
    c.traversal = tiles.traversal;
    if (last) {
      c.operands = operands;
      c.stage = stage.ops;
    }
    ctx.Mxu(std::move(c));
  };

  auto do_block = [&](int64_t n, int64_t oh0, int64_t ow0, size_t chunk_index) {
    const auto &piece = layout->chunks[chunk_index];
    const int64_t bh = std::min(tiles.block_h, p.oh - oh0), bw = std::min(tiles.block_w, p.ow - ow0);
    const Span rows = InputSpan(oh0, bh, p.stride_h, p.kh, p.dilation_h, p.pad_top, p.ih);
    const Span cols = InputSpan(ow0, bw, p.stride_w, p.kw, p.dilation_w, p.pad_left, p.iw);
    const auto [ch0, nch] = input_channels(piece.oc0, piece.noc);
    const Box out_box{{n, oh0, ow0, piece.oc0}, {1, bh, bw, piece.noc}};

    View in;
    if (slices == 1)
      in = fetch_input(Box{{n, rows.start, cols.start, ch0}, {1, rows.size, cols.size, nch}});
    if (loaded.chunk != static_cast<int64_t>(chunk_index)) {
      loaded.chunk = static_cast<int64_t>(chunk_index);
      const int64_t table_bytes = piece.noc * isa::kTableEntryBytes;
      if (slices == 1 && !p.uniform_weight) {
        loaded.weights =
            ctx.LoadConst(constant, piece.slice_offset[0], piece.slice_bytes[0] + table_bytes, p.name + "/w");
        loaded.table = loaded.weights;
        loaded.table.offset += piece.slice_bytes[0];
      } else {
        loaded.table = ctx.LoadConst(constant, piece.table_offset, table_bytes, p.name + "/table");
        if (slices == 1)
          loaded.weights = load_weights(piece, 0);
      }
    }
    std::vector<View> operand_block(stage.operands.size());
    for (size_t i = 0; i < stage.operands.size(); ++i)
      operand_block[i] = whole[i] ? program::Sub(operand_whole[i], out_box)
                                  : FetchBroadcast(ctx, stage.operands[i].full, out_box, stage.operands[i].name);
    const View out = ctx.Tile(p.result, out_box, p.name + "/out");

    // Rows outermost: the next layer can start on the first rows while the last ones are computed.
    for (int64_t h = 0; h < bh; h += tiles.tile_h) {
      const int64_t nh = std::min(tiles.tile_h, bh - h);
      const Span r = InputSpan(oh0 + h, nh, p.stride_h, p.kh, p.dilation_h, p.pad_top, p.ih);
      for (int64_t w = 0; w < bw; w += tiles.tile_w) {
        const int64_t nw = std::min(tiles.tile_w, bw - w);
        const Span c = InputSpan(ow0 + w, nw, p.stride_w, p.kw, p.dilation_w, p.pad_left, p.iw);
        for (int64_t oc = 0; oc < piece.noc; oc += tiles.tile_oc) {
          const int64_t noc = std::min(tiles.tile_oc, piece.noc - oc);
          std::array<isa::StageOperand, 2> operands;
          for (size_t i = 0; i < stage.operands.size(); ++i)
            operands[i] = {operand_block[i].Sub(0, h, w, oc, 1, nh, nw, noc), stage.operands[i].quant};
          const View tile_out = out.Sub(0, h, w, oc, 1, nh, nw, noc);
          isa::Address tab = loaded.table;
          tab.offset += oc * isa::kTableEntryBytes;
          if (slices == 1) {
            const auto [tch0, tnch] = input_channels(piece.oc0 + oc, noc);
            const View tile_in =
                in.Sub(0, r.start - rows.start, c.start - cols.start, tch0 - ch0, 1, r.size, c.size, tnch);
            isa::Address wa = loaded.weights;
            wa.offset += oc == 0 || uniform ? 0 : WeightBytes(p, t, oc, p.group_ic());
            emit(tile_in, r, c, tile_out, wa, WeightBytes(p, t, noc, p.group_ic()), tab, noc, isa::Accumulate::Single,
                 operands);
            continue;
          }
          for (int64_t s = 0; s < slices; ++s) {
            const int64_t ic0 = s * tiles.slice_ic, nic = std::min(tiles.slice_ic, p.ic - ic0);
            const View tile_in =
                ctx.Fetch(p.in, Box{{n, r.start, c.start, ic0}, {1, r.size, c.size, nic}}, p.name + "/in");
            const isa::Address wa = load_weights(piece, s);
            const isa::Accumulate acc = s == 0            ? isa::Accumulate::Start
                                        : s + 1 == slices ? isa::Accumulate::Finish
                                                          : isa::Accumulate::Continue;
            emit(tile_in, r, c, tile_out, wa, WeightBytes(p, t, noc, nic), tab, noc, acc, operands);
          }
        }
      }
    }
    ctx.Store(out, p.result, out_box);
  };

  auto each_block = [&](auto &&fn) {
    for (int64_t n = 0; n < p.n; ++n)
      for (int64_t h = 0; h < p.oh; h += tiles.block_h)
        for (int64_t w = 0; w < p.ow; w += tiles.block_w)
          fn(n, h, w);
  };
  if (tiles.weights_outer) {
    for (size_t c = 0; c < layout->chunks.size(); ++c)
      each_block([&](int64_t n, int64_t h, int64_t w) { do_block(n, h, w, c); });
  } else {
    each_block([&](int64_t n, int64_t h, int64_t w) {
      for (size_t c = 0; c < layout->chunks.size(); ++c)
        do_block(n, h, w, c);
    });
  }
  return absl::OkStatus();
}

} // namespace npuc::lower
