// Convolutions beyond the machine's limits, as accumulated steps over one output tile (start, continue, finish):
//
//   columns alone, no padding                       no steps at all: a product of rows that lie in the input
//   stride = kernel, no padding (patch embedding)   one step a kernel row: KW pixels of C channels are one row of KW *
//   C channels in NHWC kernel above the limit                          one step a piece of the kernel within the limit,
//   its padding shifted stride or dilation above the limit              one step a tap: a 1x1 kernel over every
//   stride-th pixel
//
// Each step sees the input through a view of its own; windows of a step that lie in padding altogether are left out.
// Integer sums are exact whatever their order; f16 chains run step after step. Blocks of output rows with all their
// input on chip, chunks of output channels with all steps' weights, tiles of one accumulator bank.
#include "backend/lower/large_conv.h"

#include <algorithm>
#include <memory>

#include "backend/isa/isa.h"
#include "backend/lower/broadcast.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/int_math.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::ConvMode;
using isa::View;
using program::Box;

// One axis of a step: rows `first + v * pitch` of the input are its virtual rows v in [0, extent), convolved as
// written.
struct StepAxis {
  int64_t first = 0, pitch = 1, extent = 0;
  int64_t kernel = 1, stride = 1, dilation = 1, pad = 0;
  int64_t k0 = 0; // first tap
};

struct Step {
  StepAxis h, w;
  bool patch_row = false; // W is channels: see above
};

struct Need {
  int64_t start, size, before, after; // virtual rows present, and padding
  bool any;                           // some tap is there
};
Need NeedOf(const StepAxis &a, int64_t first, int64_t count) {
  const int64_t lo = first * a.stride - a.pad, hi = lo + (count - 1) * a.stride + (a.kernel - 1) * a.dilation + 1;
  Need n{};
  n.any = lo < a.extent && hi > 0;
  if (!n.any)
    return n;
  n.start = std::max<int64_t>(lo, 0);
  const int64_t end = std::clamp<int64_t>(hi, n.start + 1, a.extent);
  n.size = end - n.start;
  n.before = n.start - lo;
  n.after = std::max<int64_t>(0, hi - end);
  return n;
}

// Pieces of one axis: by taps when stride or dilation are too large, else by the kernel's limit.
std::vector<StepAxis> StepsOf(const ConvGeometry &g, int a, int64_t in, int64_t out, const Target &t, bool taps) {
  std::vector<StepAxis> r;
  if (!taps) {
    for (int64_t k = 0; k < g.kernel[a]; k += t.limits.kernel_max[a]) {
      StepAxis s;
      s.k0 = k;
      s.extent = in;
      s.kernel = std::min(t.limits.kernel_max[a], g.kernel[a] - k);
      s.stride = g.stride[a];
      s.dilation = g.dilation[a];
      s.pad = g.pad_before[a] - k * g.dilation[a];
      r.push_back(s);
    }
    return r;
  }
  for (int64_t k = 0; k < g.kernel[a]; ++k) {
    const int64_t offset = k * g.dilation[a] - g.pad_before[a]; // input row of output row 0
    const int64_t lo = offset >= 0 ? 0 : CeilDiv(-offset, g.stride[a]);
    const int64_t hi = offset >= in ? 0 : std::min(out, CeilDiv(in - offset, g.stride[a]));
    if (hi <= lo)
      continue;
    StepAxis s;
    s.k0 = k;
    s.first = offset + lo * g.stride[a];
    s.pitch = g.stride[a];
    s.extent = hi - lo;
    s.pad = lo;
    r.push_back(s);
  }
  return r;
}

bool OverLimit(const ConvGeometry &g, const Target &t) {
  for (int a = 0; a < 2; ++a)
    if (g.stride[a] > t.limits.stride_max[a] || g.dilation[a] > t.limits.dilation_max[a])
      return true;
  return false;
}

bool LiesSideBySide(const View &v) {
  return v.c_block == v.c && v.stride_w == v.c * v.elem_bytes();
}

// [OC][C][KH][KW] as [OC][KH][KW][C], KW and C one axis of channels.
WeightSource ChannelsLast(const WeightSource &source, const MxuProblem &p, const ConvGeometry &g) {
  const Tensor from = source.tensor.Expand();
  Tensor turned = Tensor::Allocate(from.dtype(), {p.oc, g.kernel[0], g.kernel[1], p.ic});
  const int size = ByteSize(from.dtype());
  uint8_t *to = turned.mutable_bytes();
  for (int64_t o = 0; o < p.oc; ++o)
    for (int64_t h = 0; h < g.kernel[0]; ++h)
      for (int64_t w = 0; w < g.kernel[1]; ++w)
        for (int64_t c = 0; c < p.ic; ++c, to += size)
          std::memcpy(to,
                      from.bytes() +
                          (source.base + o * source.s_oc + c * source.s_ic + h * source.s_kh + w * source.s_kw) * size,
                      size);
  return WeightSource{turned, 0, g.kernel[0] * g.kernel[1] * p.ic, 1, g.kernel[1] * p.ic, 0};
}

bool IsPatch(const ConvGeometry &g, const MxuProblem &p, const Target &t) {
  const int64_t channels = g.kernel[1] * p.ic;
  return p.mode == ConvMode::Dense && g.kernel == g.stride && g.dilation == std::array<int64_t, 2>{1, 1} &&
         g.pad_before == std::array<int64_t, 2>{0, 0} && channels <= t.limits.dims_max && p.ow * g.kernel[1] <= p.iw &&
         // Pixels side by side: what is fetched lies so on chip.
         (!p.ifm_on_chip || LiesSideBySide(p.in));
}

} // namespace

bool NeedsSteps(const ConvGeometry &g, const Target &t) {
  return OverLimit(g, t) || g.kernel[0] > t.limits.kernel_max[0] || g.kernel[1] > t.limits.kernel_max[1];
}

bool IsRowProduct(const ConvGeometry &g, int64_t channels, int64_t groups, const Target &t) {
  const std::array<int64_t, 2> none{0, 0};
  return NeedsSteps(g, t) && groups == 1 && g.kernel[0] == 1 && g.stride[0] == 1 && g.dilation[1] == 1 &&
         g.pad_before == none && g.pad_after == none && g.kernel[1] * channels <= t.limits.dims_max;
}

Status MakeRowProduct(const ConvGeometry &g, MxuProblem &p, WeightSource &source, LowerContext &ctx) {
  if (!LiesSideBySide(p.in)) {
    const int64_t bytes = p.in.elements() * p.in.elem_bytes();
    if (bytes > ctx.budget() / 2)
      return Error("E0405",
                   fmt::format("the input of this convolution lies in pieces and is gathered on chip first: it has {} "
                               "bytes, {} are free",
                               bytes, ctx.budget() / 2),
                   "use a target with more SRAM, or keep this node on the host with --deny-node");
    const View packed = ctx.AllocTile(p.in.dtype, p.in.n, p.in.h, p.in.w, p.in.c, p.name + "/packed");
    ctx.Copy(p.in, packed);
    p.in = packed;
    p.ifm_on_chip = true;
  }
  source = ChannelsLast(source, p, g);
  p.ic *= g.kernel[1];
  p.iw = p.ow;
  p.in.address.offset += int64_t{p.in.c0} * p.in.elem_bytes();
  p.in.c0 = 0;
  p.in.c = p.in.c_block = static_cast<uint32_t>(p.ic);
  p.in.w = static_cast<uint32_t>(p.ow);
  p.in.stride_w *= g.stride[1];
  p.kw = p.stride_w = 1;
  return absl::OkStatus();
}

int64_t NumSteps(const ConvGeometry &g, const Target &t) {
  if (OverLimit(g, t))
    return g.kernel[0] * g.kernel[1];
  return CeilDiv(g.kernel[0], t.limits.kernel_max[0]) * CeilDiv(g.kernel[1], t.limits.kernel_max[1]);
}

Status LowerLargeConv(const MxuProblem &p, const ConvGeometry &g, const Stage &stage, const WeightSource &source,
                      const ChannelData &data, LowerContext &ctx) {
  const Target &t = ctx.target();
  std::vector<Step> steps;
  WeightSource weights = source;
  const bool patch = IsPatch(g, p, t);
  if (patch) {
    weights = ChannelsLast(source, p, g);
    for (int64_t h = 0; h < g.kernel[0]; ++h) {
      Step s;
      s.patch_row = true;
      s.h.k0 = h;
      s.h.first = h, s.h.pitch = g.stride[0], s.h.extent = p.oh;
      s.w.pitch = g.stride[1], s.w.extent = p.ow;
      steps.push_back(s);
    }
  } else {
    const bool taps = OverLimit(g, t);
    const auto columns = StepsOf(g, 1, p.iw, p.ow, t, taps);
    for (const StepAxis &h : StepsOf(g, 0, p.ih, p.oh, t, taps))
      for (const StepAxis &w : columns)
        steps.push_back({h, w, false});
  }
  if (steps.empty())
    return absl::InternalError(fmt::format("'{}' sees padding alone", p.name));

  // Each step as a problem of its own: what packing and sizes need.
  std::vector<MxuProblem> problems;
  std::vector<PackWeights> pack;
  std::vector<isa::Traversal> traversals;
  for (const Step &s : steps) {
    MxuProblem q = p;
    q.kh = s.h.kernel, q.kw = s.w.kernel;
    if (patch)
      q.ic = g.kernel[1] * p.ic;
    WeightSource w = weights;
    w.base += s.h.k0 * w.s_kh + s.w.k0 * w.s_kw;
    // A view of every other pixel is no row of pixels.
    traversals.push_back(s.w.pitch != 1 || patch ? isa::Traversal::Depth : FastestTraversal(q, t, q.group_ic()));
    pack.push_back(MakePackWeights(q, t, std::move(w), data.zero));
    problems.push_back(std::move(q));
  }

  // Sizes. Rows of input that output rows [r, r + n) need, over all steps.
  auto input_rows = [&](int64_t r, int64_t n) {
    int64_t lo = p.ih, hi = 0;
    for (const Step &s : steps) {
      const Need need = NeedOf(s.h, r, n);
      if (!need.any)
        continue;
      lo = std::min(lo, s.h.first + need.start * s.h.pitch);
      hi = std::max(hi, s.h.first + (need.start + need.size - 1) * s.h.pitch + 1);
    }
    return hi > lo ? std::pair<int64_t, int64_t>{lo, hi} : std::pair<int64_t, int64_t>{0, 1};
  };
  const int64_t unit = p.mode == ConvMode::Grouped ? p.group_oc() : t.mxu.oc;
  auto step_bytes = [&](size_t s, int64_t oc) {
    return RoundUp(WeightBytes(problems[s], t, oc, problems[s].group_ic()), 16);
  };
  auto weight_bytes = [&](int64_t oc) {
    int64_t n = oc * isa::kTableEntryBytes;
    for (size_t s = 0; s < steps.size(); ++s)
      n += step_bytes(s, oc);
    return n;
  };
  auto block_bytes = [&](int64_t rows) {
    int64_t most = 0;
    for (int64_t r : {int64_t{0}, std::max<int64_t>(0, p.oh / 2 - rows / 2), std::max<int64_t>(0, p.oh - rows)}) {
      const auto [lo, hi] = input_rows(r, std::min(rows, p.oh - r));
      most = std::max(most, hi - lo);
    }
    most = std::min(p.ih, most + p.stride_h);
    return (p.ifm_on_chip ? 0 : most * p.iw * p.in.c * p.in.elem_bytes()) +
           (p.ofm_on_chip ? 0 : rows * p.ow * p.oc * ByteSize(p.out)) +
           static_cast<int64_t>(p.operand_bytes * static_cast<double>(rows * p.ow * p.oc));
  };
  // The choice that moves the fewest bytes: chunks are loaded once a block unless all are on chip. Two chunks have room
  // beside one another, so that one is loaded while the other is used, unless only one fits.
  int64_t chunk = 0, block = 0, best = -1;
  for (int64_t copies = 2; copies >= 1 && best < 0; --copies)
    for (int64_t pieces = 1; pieces <= CeilDiv(p.oc, unit); ++pieces) {
      const int64_t c = std::min(p.oc, RoundUp(CeilDiv(p.oc, pieces), unit));
      int64_t rows = p.oh;
      while (rows > 0 && weight_bytes(c) * (pieces > 1 ? copies : 1) + block_bytes(rows) > ctx.budget())
        rows = rows == 1 ? 0 : CeilDiv(rows, 2);
      if (rows == 0)
        continue;
      const int64_t blocks = CeilDiv(p.oh, rows) * p.n,
                    moved = weight_bytes(p.oc) * (pieces > 1 ? blocks : 1) + blocks * block_bytes(rows);
      if (best < 0 || moved < best)
        best = moved, chunk = c, block = rows;
    }
  if (best < 0)
    return Error("E0405",
                 fmt::format("the smallest tile of this convolution needs {} bytes of on-chip memory, {} are free",
                             weight_bytes(std::min(unit, p.oc)) + block_bytes(1), ctx.budget()),
                 "use a target with more SRAM, or keep this node on the host with --deny-node");
  const int64_t bank = t.mxu.acc_bytes / 2 / (p.acc == isa::AccType::I48 ? 8 : 4);
  int64_t tile_oc = chunk;
  while (tile_oc > unit && bank / RoundUp(tile_oc, t.mxu.oc) < std::min<int64_t>(p.ow, 64))
    tile_oc = RoundUp(CeilDiv(tile_oc, 2), unit);
  const int64_t positions = std::max<int64_t>(1, bank / RoundUp(tile_oc, t.mxu.oc));
  const int64_t tile_w = std::min(p.ow, positions), tile_h = std::max<int64_t>(1, std::min(block, positions / tile_w));

  // Constants: chunk after chunk, its steps and then its table.
  struct Chunk {
    int64_t oc0, noc, offset, bytes;
    std::vector<int64_t> step; // offsets within the chunk
    int64_t table;
  };
  auto layout = std::make_shared<std::vector<Chunk>>();
  int64_t total = 0;
  for (int64_t oc = 0; oc < p.oc; oc += chunk) {
    Chunk c{oc, std::min(chunk, p.oc - oc), total, 0, {}, 0};
    for (size_t s = 0; s < steps.size(); ++s) {
      c.step.push_back(c.bytes);
      c.bytes += step_bytes(s, c.noc);
    }
    c.table = c.bytes;
    c.bytes += c.noc * isa::kTableEntryBytes;
    total = RoundUp(total + c.bytes, 64);
    layout->push_back(std::move(c));
  }
  std::vector<int64_t> ics;
  for (const MxuProblem &q : problems)
    ics.push_back(q.group_ic());
  const program::BufferId constant =
      ctx.AddConst(total, p.name + "/weights", [layout, pack, ics, table = MakePackTable(p, data)](uint8_t *dst) {
        for (const Chunk &c : *layout) {
          for (size_t s = 0; s < pack.size(); ++s)
            pack[s](c.oc0, c.noc, 0, ics[s], dst + c.offset + c.step[s]);
          table(c.oc0, c.noc, dst + c.offset + c.table);
        }
      });

  std::vector<View> operand_whole(stage.operands.size());
  for (size_t i = 0; i < stage.operands.size(); ++i) {
    const Box all = Box::All(stage.operands[i].full);
    if (FetchBytes(ctx, stage.operands[i].full, all) <= std::min<int64_t>(4096, ctx.budget() / 16))
      operand_whole[i] = FetchBroadcast(ctx, stage.operands[i].full, all, stage.operands[i].name);
  }

  int64_t loaded_chunk = -1;
  isa::Address loaded;
  for (int64_t n = 0; n < p.n; ++n)
    for (int64_t row = 0; row < p.oh; row += block) {
      const int64_t rows = std::min(block, p.oh - row);
      const auto [in_lo, in_hi] = input_rows(row, rows);
      const View in = ctx.Fetch(p.in, Box{{n, in_lo, 0, 0}, {1, in_hi - in_lo, p.in.w, p.in.c}}, p.name + "/in");
      const Box whole_box{{n, row, 0, 0}, {1, rows, p.ow, p.oc}};
      const View out = ctx.Tile(p.result, whole_box, p.name + "/out");
      for (size_t k = 0; k < layout->size(); ++k) {
        const Chunk &c = (*layout)[k];
        if (loaded_chunk != static_cast<int64_t>(k)) {
          loaded = ctx.LoadConst(constant, c.offset, c.bytes, p.name + "/w");
          loaded_chunk = static_cast<int64_t>(k);
        }
        const Box out_box{{n, row, 0, c.oc0}, {1, rows, p.ow, c.noc}};
        std::vector<View> operands;
        for (size_t i = 0; i < stage.operands.size(); ++i)
          operands.push_back(operand_whole[i].present()
                                 ? program::Sub(operand_whole[i], out_box)
                                 : FetchBroadcast(ctx, stage.operands[i].full, out_box, stage.operands[i].name));
        for (int64_t h = 0; h < rows; h += tile_h)
          for (int64_t w = 0; w < p.ow; w += tile_w)
            for (int64_t o = 0; o < c.noc; o += tile_oc) {
              const int64_t nh = std::min(tile_h, rows - h), nw = std::min(tile_w, p.ow - w),
                            no = std::min(tile_oc, c.noc - o);
              std::vector<size_t> active;
              for (size_t s = 0; s < steps.size(); ++s)
                if (NeedOf(steps[s].h, row + h, nh).any && NeedOf(steps[s].w, w, nw).any)
                  active.push_back(s);
              if (active.empty())
                return absl::InternalError(fmt::format("a tile of '{}' sees padding alone", p.name));
              for (size_t i = 0; i < active.size(); ++i) {
                const size_t s = active[i];
                const Step &step = steps[s];
                const MxuProblem &q = problems[s];
                const Need r = NeedOf(step.h, row + h, nh), cs = NeedOf(step.w, w, nw);
                View v = in;
                v.address.offset += (step.h.first + r.start * step.h.pitch - in_lo) * in.stride_h +
                                    (step.w.first + cs.start * step.w.pitch) * in.stride_w;
                v.stride_h = in.stride_h * step.h.pitch;
                v.stride_w = in.stride_w * step.w.pitch;
                v.h = static_cast<uint32_t>(r.size);
                v.w = static_cast<uint32_t>(cs.size);
                if (step.patch_row) {
                  v.address.offset += int64_t{v.c0} * v.elem_bytes();
                  v.c0 = 0;
                  v.c = v.c_block = static_cast<uint32_t>(q.ic);
                } else if (p.mode != ConvMode::Dense) {
                  const int64_t per = p.mode == ConvMode::Depthwise ? 1 : p.group_ic(),
                                out_per = p.mode == ConvMode::Depthwise ? 1 : p.group_oc();
                  v = v.Sub(0, 0, 0, (c.oc0 + o) / out_per * per, 1, v.h, v.w,
                            static_cast<uint32_t>(no / out_per * per));
                }
                isa::Conv cmd;
                cmd.in = v;
                cmd.out = out.Sub(0, h, w, c.oc0 + o, 1, nh, nw, no);
                cmd.weights = loaded;
                cmd.weights.offset += c.step[s] + (o == 0 ? 0 : WeightBytes(q, t, o, q.group_ic()));
                cmd.weight_dtype = p.w;
                cmd.weight_bytes = static_cast<uint32_t>(WeightBytes(q, t, no, q.group_ic()));
                cmd.table = loaded;
                cmd.table.offset += c.table + o * isa::kTableEntryBytes;
                cmd.mode = p.mode;
                cmd.groups = static_cast<uint32_t>(p.mode == ConvMode::Grouped ? no / p.group_oc() : 1);
                cmd.kernel_h = step.h.kernel, cmd.kernel_w = step.w.kernel, cmd.stride_h = step.h.stride,
                cmd.stride_w = step.w.stride;
                cmd.dilation_h = step.h.dilation, cmd.dilation_w = step.w.dilation;
                cmd.pad_top = r.before, cmd.pad_bottom = r.after, cmd.pad_left = cs.before, cmd.pad_right = cs.after;
                cmd.in_zero = p.in_zero;
                cmd.acc = p.acc;
                cmd.traversal = traversals[s];
                const bool first = i == 0, last = i + 1 == active.size();
                cmd.accumulate = first && last ? isa::Accumulate::Single
                                 : first       ? isa::Accumulate::Start
                                 : last        ? isa::Accumulate::Finish
                                               : isa::Accumulate::Continue;
                if (last) {
                  cmd.stage = stage.ops;
                  for (size_t j = 0; j < operands.size(); ++j)
                    cmd.operands[j] = {operands[j].Sub(0, h, w, o, 1, nh, nw, no), stage.operands[j].quant};
                }
                ctx.Mxu(std::move(cmd));
              }
            }
      }
      ctx.Store(out, p.result, whole_box);
    }
  return absl::OkStatus();
}

} // namespace npuc::lower
