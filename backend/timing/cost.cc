// The price of one command: compute work, SRAM demand and DDR demand. See docs/npu-isa.md, "Timing".
#include <algorithm>
#include <initializer_list>

#include "backend/isa/isa.h"
#include "backend/isa/names.h"
#include "backend/timing/layers.h"
#include "backend/timing/runs.h"
#include "backend/timing/timing.h"
#include "compiler/support/int_math.h"
#include "compiler/support/status.h"

namespace npuc::timing {

using isa::Accumulate;
using isa::Address;
using isa::Region;
using isa::View;

namespace {

int64_t Granules(int64_t bytes) {
  return CeilDiv(bytes, kSramGranule) * kSramGranule;
}
Units Cycles(int64_t c) {
  return c * kUnitsPerCycle;
}

// Least lanes decide: of the types that meet, the one with most bytes.
DType Widest(std::initializer_list<const View *> views) {
  DType widest = DType::I8;
  for (const View *v : views)
    if (v->present() && (v->elem_bytes() > ByteSize(widest)))
      widest = v->dtype;
  return widest;
}

ConvShape ShapeOf(const isa::Conv &c) {
  ConvShape s;
  s.mode = c.mode;
  s.traversal = c.traversal;
  s.x = c.in.dtype;
  s.acc = c.acc;
  s.positions = int64_t{c.out.n} * c.out.h * c.out.w;
  s.oc = c.out.c;
  s.ic = c.in.c;
  s.groups = c.groups;
  s.kh = c.kernel_h;
  s.kw = c.kernel_w;
  return s;
}

Units MacTime(const isa::MatMul &m, const Target &t) {
  return MatMulMac(int64_t{m.out.n} * m.out.h, m.out.w, m.out.c, m.a.c, m.a.dtype, m.acc, t);
}

class Pricer {
public:
  Pricer(const Target &t, RegionOf region_of) : t_(t), region_of_(region_of) {}
  Cost cost;

  void Finish(const isa::Command &c) {
    if (isa::OpcodeOf(c) == isa::Opcode::End)
      return;
    cost.stream_bytes = 4 * isa::EncodedWords(c);
    cost.sram = Work(cost.sram_bytes, t_.sram.bytes_per_cycle);
    cost.ddr = Work(cost.ddr_read_bytes + cost.ddr_write_bytes + cost.stream_bytes, t_.dma.ddr_bytes_per_cycle);
  }

  void Visit(const isa::End &) {}

  void Visit(const isa::Conv &c) {
    const bool stores = c.accumulate == Accumulate::Single || c.accumulate == Accumulate::Finish;
    const ConvShape s = ShapeOf(c);
    int64_t ic_of_one = c.in.c, passes_over_input = CeilDiv(s.oc, t_.mxu.oc);
    if (c.mode == isa::ConvMode::Depthwise)
      ic_of_one = passes_over_input = 1;
    if (c.mode == isa::ConvMode::Grouped) {
      ic_of_one = c.in.c / c.groups;
      passes_over_input = CeilDiv(s.oc / c.groups, t_.mxu.oc);
    }
    cost.macs = c.out.elements() * ic_of_one * s.kh * s.kw;
    Matrix(ConvMac(s, t_), c.out, c.in.dtype, c.weight_bytes, c.operands, c.stage, stores);
    const int64_t in = SramBytes(c.in, t_);
    cost.sram_bytes += in <= t_.mxu.ibuf_bytes ? in : in * passes_over_input;
    cost.sram_bytes += Granules(c.weight_bytes) + int64_t{c.out.c} * isa::kTableEntryBytes;
  }

  void Visit(const isa::MatMul &m) {
    const bool stores = m.accumulate == Accumulate::Single || m.accumulate == Accumulate::Finish;
    const int64_t batch = int64_t{m.out.n} * m.out.h, k = m.a.c;
    int64_t item_bytes = m.weight_bytes, item_sram = Granules(m.weight_bytes);
    if (m.b.present()) {
      View one = m.b;
      one.n = one.h = 1;
      item_bytes = one.elements() * one.elem_bytes();
      item_sram = SramBytes(one, t_);
    }
    cost.macs = m.out.elements() * k;
    Matrix(MacTime(m, t_), m.out, m.a.dtype, item_bytes * batch, m.operands, m.stage, stores);
    View one = m.a;
    one.n = one.h = 1;
    const int64_t in = SramBytes(one, t_);
    cost.sram_bytes += in <= t_.mxu.ibuf_bytes ? SramBytes(m.a, t_) : SramBytes(m.a, t_) * CeilDiv(m.out.c, t_.mxu.oc);
    cost.sram_bytes += item_sram * batch + int64_t{m.out.c} * isa::kTableEntryBytes;
  }

  void Visit(const isa::Dma &d) {
    const Region from = Of(d.src.address), to = Of(d.dst.address);
    View inner = d.dst;
    bool padded = false;
    for (int i = 0; i < 4; ++i)
      padded |= d.pad_before[i] || d.pad_after[i];
    if (padded)
      inner = d.dst.Sub(d.pad_before[0], d.pad_before[1], d.pad_before[2], d.pad_before[3], d.src.n, d.src.h, d.src.w,
                        d.src.c);
    const CommonRuns runs = CommonRunsOf(d.src, inner);
    if (from == Region::Sram)
      cost.sram_bytes += std::max(runs.src_granules, SramBytes(d.src, t_));
    else
      Read(d.src);
    if (to == Region::Sram) {
      const int64_t own = SramBytes(inner, t_);
      cost.sram_bytes +=
          std::max(runs.dst_granules, own) + (padded ? std::max<int64_t>(0, SramBytes(d.dst, t_) - own) : 0);
    } else {
      cost.ddr_write_bytes += DdrBytes(d.dst, t_);
      cost.latency += Cycles(t_.dma.write_latency);
    }
    if (from != Region::Sram)
      cost.latency += Cycles(t_.dma.read_latency);
    Transfer(runs.longest * std::min(d.src.elem_bytes(), d.dst.elem_bytes()), d.dst.elements());
  }

  void Visit(const isa::Gather &g) {
    const int64_t rows = int64_t{g.out.n} * g.out.h * g.out.w, row_bytes = int64_t{g.table.c} * g.table.elem_bytes();
    View row = g.table;
    row.n = row.h = row.w = 1;
    View out_row = g.out;
    out_row.n = out_row.h = out_row.w = 1;
    const CommonRuns runs = CommonRunsOf(row, out_row);
    if (Of(g.table.address) == Region::Sram) {
      cost.sram_bytes += rows * runs.src_granules;
    } else {
      cost.ddr_read_bytes += RowsDdrBytes(rows, row_bytes, g.table.address.offset, g.table.stride_w, t_);
      cost.latency += Cycles(t_.dma.read_latency);
    }
    if (Of(g.indices.address) == Region::Sram) {
      cost.sram_bytes += SramBytes(g.indices, t_);
    } else {
      Read(g.indices);
      cost.latency += Cycles(t_.dma.read_latency);
    }
    if (Of(g.out.address) == Region::Sram) {
      cost.sram_bytes += std::max(rows * runs.dst_granules, SramBytes(g.out, t_));
    } else {
      cost.ddr_write_bytes += DdrBytes(g.out, t_);
      cost.latency += Cycles(t_.dma.write_latency);
    }
    Transfer(runs.longest * row.elem_bytes(), g.out.elements());
  }

  void Visit(const isa::Elem &e) {
    int64_t elements = PaddedElements(e.out, t_);
    for (const View &v : e.in)
      if (v.present()) {
        elements = std::max(elements, PaddedElements(v, t_));
        cost.sram_bytes += SramBytes(v, t_);
      }
    cost.sram_bytes += SramBytes(e.out, t_);
    Vector(VpuTime(elements, isa::PassesRow(e.fn), Widest({&e.in[0], &e.in[1], &e.in[2], &e.out}), t_));
  }
  void Visit(const isa::Lut &l) {
    cost.sram_bytes += SramBytes(l.in, t_) + SramBytes(l.out, t_) + Granules(isa::LutBytes(l.in.dtype));
    const VpuFunction f = l.in.elem_bytes() == 2 ? VpuFunction::Lut16 : VpuFunction::Lut;
    Vector(VpuTime(std::max(PaddedElements(l.in, t_), PaddedElements(l.out, t_)), f, Widest({&l.in, &l.out}), t_));
  }
  void Visit(const isa::Pool &p) {
    cost.sram_bytes += SramBytes(p.in, t_) + SramBytes(p.out, t_);
    Vector(VpuTime(PaddedElements(p.out, t_), VpuFunction::Pool, Widest({&p.in, &p.out}), t_,
                   PoolTaps(p.kind, p.kernel_h, p.kernel_w)));
  }
  void Visit(const isa::Reduce &r) {
    cost.sram_bytes += SramBytes(r.in, t_) + SramBytes(r.out, t_) * (r.combine ? 2 : 1);
    const bool arg = r.kind == isa::ReduceKind::ArgMax || r.kind == isa::ReduceKind::ArgMin;
    // The index that argmax writes does not slow the comparison down: lanes are those of the source.
    Vector(VpuTime(PaddedElements(r.in, t_), arg ? VpuFunction::Argmax : VpuFunction::Reduce,
                   Widest({&r.in, arg ? &r.in : &r.out}), t_));
  }
  void Visit(const isa::Norm &n) {
    cost.sram_bytes += SramBytes(n.in, t_) + SramBytes(n.out, t_);
    for (const View *v : {&n.gamma, &n.beta})
      if (v->present())
        cost.sram_bytes += SramBytes(*v, t_);
    const bool softmax = n.kind == isa::NormKind::Softmax || n.kind == isa::NormKind::LogSoftmax;
    // gamma and beta are held; only what streams through takes lanes.
    Vector(VpuTime(PaddedElements(n.in, t_), softmax ? VpuFunction::Softmax : VpuFunction::Norm,
                   Widest({&n.in, &n.out}), t_));
  }
  void Visit(const isa::Resize &r) {
    cost.sram_bytes += SramBytes(r.in, t_) + SramBytes(r.out, t_);
    const VpuFunction f = r.kind == isa::ResizeKind::Nearest ? VpuFunction::ResizeNearest : VpuFunction::ResizeLinear;
    Vector(VpuTime(PaddedElements(r.out, t_), f, Widest({&r.in, &r.out}), t_));
  }

private:
  Region Of(const Address &a) { return a.region == Region::Buffer ? region_of_(a) : a.region; }
  void Read(const View &v) { cost.ddr_read_bytes += DdrBytes(v, t_); }

  void Matrix(Units mac, const View &out, DType x, int64_t weight_bytes,
              const std::array<isa::StageOperand, 2> &operands, const isa::MicroOps &stage, bool stores) {
    const Units output = stores ? OutputTime(out.elements(), StagePasses(stage, t_), x, t_) : 0;
    const Units weights = WeightTime(weight_bytes, t_);
    cost.compute = Cycles(t_.issue_cycles + t_.mxu.pipeline_fill) + std::max({mac, output, weights});
    cost.compute_bound = mac >= output && mac >= weights ? Bound::Mac
                         : output >= weights             ? Bound::Output
                                                         : Bound::Weights;
    if (!stores)
      return;
    for (const isa::StageOperand &o : operands)
      if (o.view.present())
        cost.sram_bytes += SramBytes(o.view, t_);
    for (const isa::MicroOp &m : stage)
      if (m.kind == isa::MicroKind::Lut)
        cost.sram_bytes += isa::kLut8Bytes;
    cost.sram_bytes += SramBytes(out, t_);
  }
  void Vector(Units time) {
    cost.compute = Cycles(t_.issue_cycles) + time;
    cost.compute_bound = Bound::Vector;
  }
  void Transfer(int64_t longest_run_bytes, int64_t elements) {
    cost.compute = Cycles(t_.issue_cycles);
    cost.compute_bound = Bound::Issue;
    if (longest_run_bytes >= kRearrangeBelow)
      return;
    cost.compute += Work(elements, t_.dma.rearrange_elems_per_cycle);
    cost.compute_bound = Bound::Rearrange;
  }

  const Target &t_;
  RegionOf region_of_;
};

} // namespace

Units ArrayTime(const isa::Command &c, const Target &t) {
  if (const auto *conv = std::get_if<isa::Conv>(&c.body))
    return ConvMac(ShapeOf(*conv), t);
  if (const auto *matmul = std::get_if<isa::MatMul>(&c.body))
    return MacTime(*matmul, t);
  return 0;
}

std::string_view Name(Bound b) {
  static constexpr std::string_view names[] = {"issue",     "mac",     "output", "weights", "vector",
                                               "rearrange", "latency", "sram",   "ddr"};
  return names[static_cast<int>(b)];
}

Units Cost::Isolated() const {
  return std::max({latency + compute, sram, ddr});
}

Cost CommandCost(const isa::Command &c, const Target &t, RegionOf region_of) {
  Pricer p(t, region_of);
  std::visit([&](const auto &body) { p.Visit(body); }, c.body);
  p.Finish(c);
  return p.cost;
}

Cost CommandCost(const isa::Command &c, const Target &t) {
  return CommandCost(c, t, [](const Address &a) {
    NPUC_CHECK(a.region != Region::Buffer, "a symbolic buffer is priced without its space");
    return a.region;
  });
}

double EstimateCycles(const isa::Command &c, const Target &t, RegionOf region_of) {
  return static_cast<double>(CommandCost(c, t, region_of).Isolated()) / kUnitsPerCycle;
}

} // namespace npuc::timing
