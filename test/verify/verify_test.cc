// Rules of commands and streams: a sound stream passes, every violation is named.
#include "backend/verify/verify.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>

#include "backend/verify/mutations.h"
#include "compiler/support/diagnostic.h"
#include "test/verify/streams.h"

namespace npuc::verify {
namespace {

using isa::Address;
using isa::Command;
using isa::Engine;
using isa::Region;
using isa::Stream;
using isa::View;

const Target &Edge2t() {
  static const Target t = *Target::FromPreset("edge-2t");
  return t;
}
MemorySizes Sizes() {
  MemorySizes s;
  s.const_bytes = 65536;
  s.arena_bytes = 65536;
  s.sram_bytes = 65536;
  s.io_bytes = {4096, 4096};
  s.num_inputs = 1;
  return s;
}
Address Sram(int64_t offset) {
  return {Region::Sram, 0, offset};
}

Command Of(Engine e, isa::CommandBody body) {
  Command c;
  c.engine = e;
  c.body = std::move(body);
  return c;
}
Stream Ended(std::vector<Command> commands) {
  commands.emplace_back();
  return commands;
}
std::string Findings(const Stream &s, const Target &t = Edge2t(), const MemorySizes &sizes = Sizes()) {
  std::string text;
  for (const Finding &f : VerifyStream(s, t, sizes)) {
    EXPECT_EQ(f.code, "E0604");
    text += f.text + "\n";
  }
  return text;
}
std::string Findings(const Command &c, const Target &t = Edge2t()) {
  return Findings(Ended({c}), t);
}
testing::AssertionResult Has(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' lacks '" << part << "'";
}

isa::Conv GoodConv() {
  isa::Conv c;
  c.in = isa::NhwcView(Sram(0), DType::I8, 1, 8, 8, 16);
  c.out = isa::NhwcView(Sram(4096), DType::U8, 1, 8, 8, 32);
  c.weights = Sram(16384);
  c.weight_bytes = 32 * 16 * 9;
  c.table = Sram(32768);
  c.kernel_h = c.kernel_w = 3;
  c.pad_top = c.pad_left = c.pad_bottom = c.pad_right = 1;
  c.in_zero = -5;
  isa::MicroOp q;
  q.kind = isa::MicroKind::Quantise;
  q.requant = true;
  q.dtype = DType::U8;
  q.quant = {0.5f, 128};
  c.stage = {isa::MicroOp(), q};
  return c;
}
isa::MatMul GoodMatMul() {
  isa::MatMul m;
  m.a = isa::NhwcView(Sram(0), DType::F16, 1, 2, 10, 40);
  m.b = isa::NhwcView(Sram(4096), DType::F16, 1, 2, 40, 24);
  m.out = isa::NhwcView(Sram(16384), DType::F16, 1, 2, 10, 24);
  m.table = Sram(32768);
  m.acc = isa::AccType::F32;
  m.stage.resize(1);
  return m;
}
isa::Elem GoodElem() {
  isa::Elem e;
  e.fn = isa::ElemFn::Add;
  e.in[0] = isa::NhwcView(Sram(0), DType::I8, 1, 4, 4, 16);
  e.in[1] = isa::NhwcView(Sram(512), DType::U8, 1, 4, 4, 16);
  e.in_quant[1] = {0.1f, 128};
  e.out = isa::NhwcView(Sram(1024), DType::I8, 1, 4, 4, 16);
  return e;
}
isa::Pool GoodPool() {
  isa::Pool p;
  p.in = isa::NhwcView(Sram(0), DType::I8, 1, 8, 8, 16);
  p.out = isa::NhwcView(Sram(4096), DType::I8, 1, 4, 4, 16);
  p.kernel_h = p.kernel_w = 3;
  p.stride_h = p.stride_w = 2;
  p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 1;
  return p;
}
isa::Reduce GoodReduce() {
  isa::Reduce r;
  r.kind = isa::ReduceKind::Mean;
  r.axes = isa::kAxisH | isa::kAxisW;
  r.in = isa::NhwcView(Sram(0), DType::I8, 1, 8, 8, 16);
  r.out = isa::NhwcView(Sram(4096), DType::I8, 1, 1, 1, 16);
  return r;
}
isa::Norm GoodNorm() {
  isa::Norm n;
  n.kind = isa::NormKind::Layer;
  n.in = isa::NhwcView(Sram(0), DType::F16, 1, 1, 8, 16);
  n.out = isa::NhwcView(Sram(4096), DType::F16, 1, 1, 8, 16);
  n.gamma = isa::NhwcView(Sram(8192), DType::F16, 1, 1, 1, 16);
  n.gamma.w = 8;
  n.gamma.stride_w = 0;
  n.epsilon = 1e-5f;
  return n;
}
isa::Resize GoodResize() {
  isa::Resize r;
  r.kind = isa::ResizeKind::Linear;
  r.in = isa::NhwcView(Sram(0), DType::I8, 1, 5, 8, 16); // rows 0..4 of 8
  r.out = isa::NhwcView(Sram(4096), DType::I8, 1, 8, 16, 16);
  r.scale_h = r.scale_w = 2;
  r.full_in_h = r.full_in_w = 8;
  r.full_out_h = r.full_out_w = 16;
  return r;
}
isa::Lut GoodLut() {
  isa::Lut l;
  l.in = isa::NhwcView(Sram(0), DType::I8, 1, 4, 4, 16);
  l.out = isa::NhwcView(Sram(512), DType::U8, 1, 4, 4, 16);
  l.table = Sram(1024);
  return l;
}
isa::Gather GoodGather() {
  isa::Gather g;
  g.table = isa::NhwcView({Region::Const, 0, 0}, DType::F16, 1, 1, 1000, 8);
  g.indices = isa::NhwcView({Region::Arena, 0, 0}, DType::I32, 1, 1, 10, 1);
  g.out = isa::NhwcView(Sram(0), DType::F16, 1, 1, 10, 8);
  return g;
}
isa::Dma GoodDma() {
  isa::Dma d;
  d.src = isa::NhwcView({Region::Io, 0, 0}, DType::I64, 1, 4, 4, 3);
  d.dst = isa::NhwcView({Region::Sram, 0, 0}, DType::I64, 1, 6, 4, 3);
  d.pad_before = d.pad_after = {0, 1, 0, 0};
  return d;
}

template <class Body> std::string Changed(Engine e, Body body, const std::function<void(Body &)> &change) {
  change(body);
  return Findings(Of(e, std::move(body)));
}

TEST(Verify, SoundCommandsPass) {
  EXPECT_EQ(Findings(Stream{Command()}), "");
  EXPECT_EQ(Findings(Of(Engine::MXU, GoodConv())), "");
  EXPECT_EQ(Findings(Of(Engine::MXU, GoodMatMul())), "");
  EXPECT_EQ(Findings(Of(Engine::VPU, GoodElem())), "");
  EXPECT_EQ(Findings(Of(Engine::VPU, GoodPool())), "");
  EXPECT_EQ(Findings(Of(Engine::VPU, GoodReduce())), "");
  EXPECT_EQ(Findings(Of(Engine::VPU, GoodNorm())), "");
  EXPECT_EQ(Findings(Of(Engine::VPU, GoodResize())), "");
  EXPECT_EQ(Findings(Of(Engine::VPU, GoodLut())), "");
  EXPECT_EQ(Findings(Of(Engine::LD, GoodGather())), "");
  EXPECT_EQ(Findings(Of(Engine::LD, GoodDma())), "");
}

TEST(Verify, Views) {
  auto dma = [](auto change) { return Changed<isa::Dma>(Engine::LD, GoodDma(), change); };
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.h = 0; }), "src has dims [1,0,4,3], each must be 1 to 65536"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.w = 65537; }), "each must be 1 to 65536"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.c0 = 3; }), "src starts at lane 3 of blocks of 3"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.c_block = 0; }), "lane 0 of blocks of 0"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.dtype = DType::String; }), "elements of type string"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.address.offset = 4096 - 384 + 8; }),
                  "src bytes 3720 to 4104 are outside io0, which has 4096 bytes"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.address.offset = -8; }), "src bytes -8 to 376"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.stride_h = -96; }), "src bytes -288 to 96"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.stride_h = INT64_MAX; }), "spans more than 2^62 bytes"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.address.offset = INT64_MAX; }), "spans more than 2^62 bytes"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.address.offset = 4; }), "no multiple of its element size 8"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.address.index = 2; }), "lies in io2, the model has 2"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.address = {Region::Arena, 1, 0}; }), "region number 1 in arena"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.dst.address = {Region::Io, 0, 0}; }), "dst is written to io0, a model input"));
  EXPECT_EQ(dma([](auto &d) { d.dst.address = {Region::Io, 1, 0}; }), "");
  EXPECT_TRUE(Has(dma([](auto &d) { d.dst.address = {Region::Const, 0, 0}; }), "dst is written to const"));
  EXPECT_TRUE(
      Has(dma([](auto &d) { d.dst.stride_w = 16; }), "dst is written, but several of its elements share a byte"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.dst.stride_h = 0; }), "share a byte"));
  EXPECT_EQ(dma([](auto &d) { d.src.stride_h = 0; }), ""); // reading twice is fine
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.address = {Region::Buffer, 0, 0}; }), "symbolic buffer"));
  EXPECT_TRUE(Has(dma([](auto &d) {
                    d.src = isa::NhwcView(Sram(0), DType::I64, 1, 4, 4, 3);
                    d.dst.address.offset = 376;
                  }),
                  "src overlaps the output"));
  // Filled lanes count as written and must be in bounds.
  auto fill = [](int64_t offset, isa::Tail tail) {
    isa::Dma d;
    d.src = isa::NhwcView({Region::Arena, 0, 0}, DType::I8, 1, 2, 2, 3);
    d.dst = isa::BlockedView(Sram(offset), DType::I8, 1, 2, 2, 3, 16);
    d.dst.tail = tail;
    return Findings(Of(Engine::LD, d));
  };
  EXPECT_EQ(fill(65536 - 64, isa::Tail::Fill), "");
  EXPECT_TRUE(Has(fill(65536 - 51, isa::Tail::Fill), "outside sram"));
  EXPECT_EQ(fill(65536 - 51, isa::Tail::Keep), "");
}

TEST(Verify, EnginesReadAndWriteSram) {
  EXPECT_TRUE(Has(Changed<isa::Elem>(Engine::VPU, GoodElem(),
                                     [](auto &e) {
                                       e.in[0].address = {Region::Arena, 0, 0};
                                     }),
                  "in lies in arena, VPU reads and writes sram only"));
  EXPECT_TRUE(Has(Changed<isa::Conv>(Engine::MXU, GoodConv(),
                                     [](auto &c) {
                                       c.weights = {Region::Const, 0, 0};
                                     }),
                  "weights lies in const, MXU"));
  EXPECT_TRUE(Has(Changed<isa::Conv>(Engine::MXU, GoodConv(), [](auto &c) { c.table.offset = 65536 - 256; }),
                  "table bytes 65280 to 65792 are outside sram"));
  EXPECT_TRUE(Has(Changed<isa::Conv>(Engine::MXU, GoodConv(), [](auto &c) { c.table.offset += 8; }),
                  "table at 32776 is no multiple of 16"));
  EXPECT_TRUE(Has(Changed<isa::Conv>(Engine::MXU, GoodConv(), [](auto &c) { c.weights.offset = INT64_MAX - 3; }),
                  "are outside sram"));
  EXPECT_TRUE(Has(Findings(Of(Engine::MXU, GoodElem())), "engine MXU does not run it"));
}

TEST(Verify, InPlace) {
  auto elem = [](auto change) { return Changed<isa::Elem>(Engine::VPU, GoodElem(), change); };
  EXPECT_EQ(elem([](auto &e) { e.out.address = e.in[0].address; }), "");
  EXPECT_EQ(elem([](auto &e) { e.out.address = e.in[1].address; }), "");
  EXPECT_TRUE(Has(elem([](auto &e) { e.out.address.offset = 16; }), "in overlaps the output"));
  EXPECT_TRUE(
      Has(elem([](auto &e) { e.out = isa::NhwcView(Sram(0), DType::F16, 1, 4, 4, 16); }), "in overlaps the output"));
  EXPECT_TRUE(Has(Changed<isa::Pool>(Engine::VPU, GoodPool(), [](auto &p) { p.out.address = p.in.address; }),
                  "in overlaps the output"));
  EXPECT_TRUE(Has(Changed<isa::Conv>(Engine::MXU, GoodConv(), [](auto &c) { c.out.address = c.weights; }),
                  "weights overlaps the output"));
}

TEST(Verify, Conv) {
  auto conv = [](auto change) { return Changed<isa::Conv>(Engine::MXU, GoodConv(), change); };
  EXPECT_TRUE(Has(conv([](auto &c) { c.kernel_h = 17; }), "kernel [17,3] is outside the limit [16,16]"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.kernel_w = 0; }), "kernel [3,0]"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.stride_w = 5; }), "strides [1,5] are outside the limit [4,4]"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.dilation_h = 9; }), "dilations [9,1] are outside the limit [8,8]"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.pad_bottom = 0; }), "rows of the output need 10 of the input, 9 are there"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.stride_w = 2; }), "columns of the output need 17 of the input, 10 are there"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.weight_bytes = 4607; }), "4607 weight bytes, the packed form has 4608"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.weight_dtype = DType::F16; }), "weights of f16 for inputs of i8"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.acc = isa::AccType::F32; }), "accumulator F32 for inputs of i8"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.in_zero = 128; }), "zero point 128 is outside i8"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.groups = 2; }), "a dense convolution of 2 groups"));
  EXPECT_TRUE(
      Has(conv([](auto &c) { c.mode = isa::ConvMode::Depthwise; }), "a depthwise convolution of 16 channels to 32"));
  EXPECT_TRUE(Has(conv([](auto &c) {
                    c.mode = isa::ConvMode::Grouped;
                    c.groups = 3;
                  }),
                  "3 groups of 16 to 32 channels"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.traversal = isa::Traversal::PartKernel; }),
                  "traversal PartKernel is not one of edge-2t's"));
  EXPECT_TRUE(Has(conv([](auto &c) { c.traversal = isa::Traversal::Kernel; }),
                  "Kernel needs at most 4 input channels in one block, there are 16"));
  EXPECT_EQ(conv([](auto &c) { c.traversal = isa::Traversal::Row; }), "");
  EXPECT_TRUE(Has(conv([](auto &c) {
                    c.in = isa::BlockedView(Sram(0), DType::I8, 1, 8, 8, 16, 8);
                    c.traversal = isa::Traversal::Row;
                  }),
                  "Row needs at most 16 input channels in one block"));
  // 32768 bytes a bank: 8x8x128 of 4 bytes fit, of 8 bytes don't.
  EXPECT_EQ(conv([](auto &c) {
              c.out = isa::NhwcView(Sram(4096), DType::U8, 1, 8, 8, 128);
              c.weight_bytes = 128 * 16 * 9;
              c.table = Sram(40960);
            }),
            "");
  EXPECT_TRUE(Has(conv([](auto &c) {
                    c.out = isa::NhwcView(Sram(4096), DType::U8, 1, 8, 8, 128);
                    c.weight_bytes = 128 * 16 * 9;
                    c.table = Sram(40960);
                    c.acc = isa::AccType::I48;
                  }),
                  "output [1,8,8,128] needs 65536 accumulator bytes, a bank has 32768"));
  // Floats on a machine without.
  isa::Conv f = GoodConv();
  f.in.dtype = DType::F16;
  EXPECT_TRUE(Has(Findings(Of(Engine::MXU, f), *Target::FromPreset("mcu-128")),
                  "inputs of f16 are not for the MXU of mcu-128"));
}

TEST(Verify, OutputStages) {
  using K = isa::MicroKind;
  auto stage = [](std::vector<isa::MicroOp> ops, auto change) {
    isa::Conv c = GoodConv();
    c.stage = std::move(ops);
    c.operands[0].view = isa::NhwcView(Sram(8192), DType::I8, 1, 8, 8, 32);
    change(c);
    return Findings(Of(Engine::MXU, c));
  };
  auto op = [](K kind, DType q = DType::Undefined) {
    isa::MicroOp m;
    m.kind = kind;
    m.dtype = q;
    if (kind == K::Lut)
      m.lut = Sram(40960);
    if (kind == K::ClampQ)
      m.b = 100;
    return m;
  };
  auto nothing = [](isa::Conv &) {};
  // The residual of a QDQ model.
  const std::vector<isa::MicroOp> residual = {op(K::Scale), op(K::Quantise, DType::I8), op(K::Dequantise), op(K::Add),
                                              op(K::Clamp), op(K::Quantise, DType::U8)};
  EXPECT_EQ(stage(residual, nothing), "");
  EXPECT_TRUE(Has(stage(residual, [](auto &c) { c.operands[0].view.w = 7; }),
                  "operand 0 has dims [1,8,7,32], the output [1,8,8,32]"));
  EXPECT_TRUE(Has(stage(residual, [](auto &c) { c.operands[0].quant.scale = 0; }), "operand 0 has scale 0"));
  EXPECT_TRUE(Has(stage(residual, [](auto &c) { c.stage[3].operand = 1; }), "takes operand 1, which is absent"));
  EXPECT_TRUE(
      Has(stage(residual, [](auto &c) { c.out.dtype = DType::I8; }), "the output stage ends in u8, the output is i8"));
  EXPECT_TRUE(Has(stage(residual, [](auto &c) { c.stage[1].dtype = DType::I32; }), "makes i32"));
  EXPECT_TRUE(Has(stage(residual, [](auto &c) { c.stage[5].quant.zero = -1; }), "zero point -1, outside u8"));
  auto plain = [&](std::vector<isa::MicroOp> ops) {
    return stage(std::move(ops), [](auto &c) { c.operands[0] = {}; });
  };
  EXPECT_TRUE(Has(stage({op(K::Scale), op(K::Quantise, DType::U8)}, nothing), "operand 0 is not used"));
  EXPECT_TRUE(Has(plain({}), "0 micro-operations"));
  EXPECT_TRUE(Has(plain({op(K::Clamp), op(K::Quantise, DType::U8)}), "Scale stands first and nowhere else"));
  EXPECT_TRUE(Has(plain({op(K::Scale), op(K::Scale)}), "Scale stands first and nowhere else"));
  EXPECT_TRUE(Has(plain({op(K::Scale), op(K::Lut)}), "micro-operation 1 (Lut) gets f32"));
  EXPECT_TRUE(
      Has(plain({op(K::Scale), op(K::Quantise, DType::U8), op(K::Clamp)}), "micro-operation 2 (Clamp) gets u8"));
  EXPECT_TRUE(Has(plain({op(K::Scale), op(K::Quantise, DType::I16), op(K::Lut)}), "looks i16 up"));
  EXPECT_EQ(plain({op(K::Scale), op(K::Quantise, DType::U8), op(K::Lut), op(K::ClampQ)}), "");
  EXPECT_TRUE(Has(plain({op(K::Scale)}), "the output stage ends in f32, the output is u8"));
  isa::MicroOp act = op(K::Act);
  act.fn = isa::ElemFn::Add;
  EXPECT_TRUE(Has(plain({op(K::Scale), act, op(K::Quantise, DType::U8)}), "Add is no function of one number"));
}

TEST(Verify, Accumulations) {
  auto piece = [](isa::Accumulate a, std::function<void(isa::Conv &)> change = nullptr) {
    isa::Conv c = GoodConv();
    c.accumulate = a;
    if (a == isa::Accumulate::Start || a == isa::Accumulate::Continue)
      c.stage.clear();
    if (change)
      change(c);
    return Of(Engine::MXU, c);
  };
  using A = isa::Accumulate;
  EXPECT_EQ(Findings(Ended({piece(A::Start), piece(A::Continue), piece(A::Finish), piece(A::Single), piece(A::Start),
                            piece(A::Finish)})),
            "");
  EXPECT_TRUE(Has(Findings(Ended({piece(A::Start)})), "the accumulation that began in command 0 is not finished"));
  EXPECT_TRUE(Has(Findings(Ended({piece(A::Continue), piece(A::Finish)})),
                  "command 0 (CONV): Continue without an open accumulation"));
  EXPECT_TRUE(Has(Findings(Ended({piece(A::Start), piece(A::Single), piece(A::Finish)})),
                  "Single while the accumulation that began in command 0 is open"));
  EXPECT_TRUE(Has(Findings(Ended({piece(A::Start), piece(A::Finish, [](isa::Conv &c) { c.out.h = 4; })})),
                  "goes on with the accumulation of command 0 (CONV, [1,8,8,32], I32) as CONV, [1,4,8,32], I32"));
  EXPECT_TRUE(Has(Findings(Ended({piece(A::Start, [](isa::Conv &c) { c.stage.resize(1); }), piece(A::Finish)})),
                  "Start has an output stage"));
  // A partial output is in no memory: its dims alone must not overflow the check.
  EXPECT_TRUE(Has(
      Findings(Ended({piece(A::Start, [](isa::Conv &c) { c.out.n = c.out.h = c.out.w = 65536; }), piece(A::Finish)})),
      "accumulator bytes"));
}

TEST(Verify, MatMul) {
  auto mm = [](auto change) { return Changed<isa::MatMul>(Engine::MXU, GoodMatMul(), change); };
  EXPECT_TRUE(Has(mm([](auto &m) { m.b.w = 39; }), "b has dims [1,2,39,24] for a [1,2,10,40] and output [1,2,10,24]"));
  EXPECT_TRUE(Has(mm([](auto &m) { m.transposed_b = true; }), "b has dims [1,2,40,24]"));
  EXPECT_EQ(mm([](auto &m) {
              m.b = isa::NhwcView(Sram(4096), DType::F16, 1, 2, 24, 40);
              m.transposed_b = true;
            }),
            "");
  EXPECT_TRUE(Has(mm([](auto &m) { m.a.w = 9; }), "a has dims [1,2,9,40]"));
  EXPECT_TRUE(Has(mm([](auto &m) { m.b.dtype = DType::I16; }), "weights of i16 for inputs of f16"));
  EXPECT_TRUE(Has(mm([](auto &m) { m.acc = isa::AccType::I32; }), "accumulator I32 for inputs of f16"));
  EXPECT_TRUE(Has(mm([](auto &m) { m.weight_bytes = 8; }), "weights and a dynamic b"));
  auto packed = [&](uint32_t bytes) {
    return mm([&](auto &m) {
      m.b = View();
      m.weight_dtype = DType::F16;
      m.weights = Sram(4096);
      m.weight_bytes = bytes;
    });
  };
  EXPECT_EQ(packed(32 * 40 * 2), "");
  EXPECT_TRUE(Has(packed(24 * 40 * 2), "1920 weight bytes, the packed form has 2560"));
}

TEST(Verify, Vpu) {
  auto elem = [](auto change) { return Changed<isa::Elem>(Engine::VPU, GoodElem(), change); };
  EXPECT_TRUE(Has(elem([](auto &e) { e.in[1].h = 3; }), "operand 1 has dims [1,3,4,16], the output [1,4,4,16]"));
  EXPECT_TRUE(Has(elem([](auto &e) { e.fn = isa::ElemFn::Abs; }), "operand 1 of Abs, which takes 1"));
  EXPECT_TRUE(Has(elem([](auto &e) { e.in_quant[0].scale = std::numeric_limits<float>::quiet_NaN(); }),
                  "operand 0 has scale nan"));
  EXPECT_TRUE(Has(elem([](auto &e) { e.out_quant.zero = 200; }), "out has zero point 200, outside i8"));
  EXPECT_TRUE(Has(elem([](auto &e) { e.in[1] = isa::NhwcView(Sram(2048), DType::I64, 1, 4, 4, 16); }),
                  "operand 1 of i64 is not for the VPU"));
  EXPECT_EQ(elem([](auto &e) { e.in[1] = View(); }), ""); // an immediate
  auto lut = [](auto change) { return Changed<isa::Lut>(Engine::VPU, GoodLut(), change); };
  EXPECT_TRUE(
      Has(lut([](auto &l) { l.in = isa::NhwcView(Sram(2048), DType::I16, 1, 4, 4, 16); }), "a table from i16 to u8"));
  EXPECT_TRUE(Has(lut([](auto &l) { l.table.offset += 4; }), "table at 1028 is no multiple of 16"));
  auto pool = [](auto change) { return Changed<isa::Pool>(Engine::VPU, GoodPool(), change); };
  EXPECT_TRUE(Has(pool([](auto &p) { p.kernel_w = 17; }), "window [3,17] is outside the limit"));
  EXPECT_TRUE(Has(pool([](auto &p) { p.out.c = 8; }), "in has dims [1,8,8,16], out [1,4,4,8]"));
  EXPECT_TRUE(Has(pool([](auto &p) { p.pad_top = 3; }), "window 0 of the rows sees padding alone"));
  EXPECT_TRUE(Has(pool([](auto &p) {
                    p.kind = isa::PoolKind::Average;
                    p.pad_left = 3;
                  }),
                  "window 0 of the columns sees padding alone"));
  EXPECT_EQ(pool([](auto &p) {
              p.kind = isa::PoolKind::Average;
              p.count_include_pad = true;
              p.pad_left = 3;
            }),
            "");
  EXPECT_TRUE(Has(pool([](auto &p) { p.out = isa::NhwcView(Sram(4096), DType::I8, 1, 6, 4, 16); }),
                  "window 5 of the rows sees padding alone"));
  EXPECT_EQ(pool([](auto &p) { p.out = isa::NhwcView(Sram(4096), DType::I8, 1, 5, 4, 16); }),
            ""); // ceil_mode: one row is there
  // Dilation steps over a narrow input: taps at -1, 1, 3 of columns 0..0.
  EXPECT_TRUE(Has(pool([](auto &p) {
                    p.in = isa::NhwcView(Sram(0), DType::I8, 1, 8, 1, 16);
                    p.out = isa::NhwcView(Sram(4096), DType::I8, 1, 4, 1, 16);
                    p.dilation_w = 2;
                  }),
                  "window 0 of the columns sees padding alone"));
  auto reduce = [](auto change) { return Changed<isa::Reduce>(Engine::VPU, GoodReduce(), change); };
  EXPECT_TRUE(
      Has(reduce([](auto &r) { r.axes = isa::kAxisH; }), "out has dims [1,1,1,16] for in [1,8,8,16] and axes mask 2"));
  EXPECT_TRUE(Has(reduce([](auto &r) { r.axes = 16; }), "axes mask 16"));
  EXPECT_TRUE(Has(reduce([](auto &r) { r.kind = isa::ReduceKind::ArgMax; }), "one axis is allowed"));
  EXPECT_TRUE(Has(reduce([](auto &r) { r.combine = true; }), "Mean is not combined"));
  EXPECT_TRUE(Has(reduce([](auto &r) {
                    r.kind = isa::ReduceKind::Sum;
                    r.combine = true;
                  }),
                  "a sum is combined in i8"));
  auto norm = [](auto change) { return Changed<isa::Norm>(Engine::VPU, GoodNorm(), change); };
  EXPECT_TRUE(Has(norm([](auto &n) { n.gamma.w = 7; }), "gamma has dims [1,1,7,16], in [1,1,8,16]"));
  EXPECT_TRUE(Has(norm([](auto &n) { n.kind = isa::NormKind::Softmax; }), "Softmax has gamma"));
  EXPECT_TRUE(Has(norm([](auto &n) { n.groups = 3; }), "3 groups of 16 channels"));
  EXPECT_TRUE(Has(norm([](auto &n) { n.epsilon = -1; }), "epsilon -1"));
}

TEST(Verify, ResizeReadsOnlyWhatIsThere) {
  auto resize = [](auto change) { return Changed<isa::Resize>(Engine::VPU, GoodResize(), change); };
  // Output row 7 comes from 3.25: rows 3 and 4.
  EXPECT_TRUE(Has(resize([](auto &r) { r.in.h = 4; }), "output 7 of the rows comes from 4, the input has 0 to 3"));
  EXPECT_TRUE(Has(resize([](auto &r) { r.in_h0 = 1; }), "output 0 of the rows comes from 0, the input has 1 to 5"));
  EXPECT_TRUE(Has(resize([](auto &r) { r.out_h0 = 9; }), "rows 9 + 8 of 16"));
  EXPECT_EQ(resize([](auto &r) { r.scale_h = 0; }), ""); // the quotient of the extents
  EXPECT_TRUE(Has(resize([](auto &r) { r.scale_h = -1; }), "scale -1"));
  EXPECT_TRUE(Has(resize([](auto &r) { r.scale_w = std::numeric_limits<float>::infinity(); }), "scale inf"));
  EXPECT_EQ(resize([](auto &r) {
              r.kind = isa::ResizeKind::Nearest;
              r.coordinates = isa::Coordinates::Asymmetric;
              r.nearest = isa::Nearest::Floor;
              r.in.h = 4;
            }),
            "");
}

TEST(Verify, DmaAndGather) {
  auto dma = [](auto change) { return Changed<isa::Dma>(Engine::LD, GoodDma(), change); };
  EXPECT_TRUE(
      Has(dma([](auto &d) { d.pad_before[1] = 0; }), "dst dims [1,6,4,3] are not src dims [1,4,4,3] plus pads"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.pad_before[1] = 0xffffffff; }), "are not src dims"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.src.dtype = DType::F32; }), "elements of f32 are copied to i64"));
  EXPECT_TRUE(Has(dma([](auto &d) { d.mode = isa::DmaMode::WidenI32; }), "WidenI32 from i64 to i64"));
  EXPECT_EQ(dma([](auto &d) {
              d.mode = isa::DmaMode::NarrowI64;
              d.dst = isa::NhwcView(Sram(0), DType::I32, 1, 6, 4, 3);
            }),
            "");
  auto gather = [](auto change) { return Changed<isa::Gather>(Engine::LD, GoodGather(), change); };
  EXPECT_TRUE(Has(gather([](auto &g) { g.indices.dtype = DType::F32; }), "indices are f32, i32 is allowed"));
  EXPECT_TRUE(Has(gather([](auto &g) { g.indices.w = 9; }), "indices [1,1,9,1] must be [1,1,10,1]"));
  EXPECT_TRUE(Has(gather([](auto &g) { g.table.c = 4; }), "rows of 4 elements are gathered into 8"));
  EXPECT_TRUE(Has(gather([](auto &g) { g.table.w = 5000; }), "table bytes 0 to 80000 are outside const"));
  // Rows of a table may be more than dims_max.
  isa::Gather g = GoodGather();
  g.table = isa::NhwcView({Region::Const, 0, 0}, DType::I8, 1, 1, 100000, 8);
  g.out = isa::NhwcView(Sram(0), DType::I8, 1, 1, 10, 8);
  MemorySizes big = Sizes();
  big.const_bytes = 800000;
  EXPECT_EQ(Findings(Ended({Of(Engine::LD, g)}), Edge2t(), big), "");
}

TEST(Verify, Queues) {
  Command ld = Of(Engine::LD, GoodDma()), vpu = Of(Engine::VPU, GoodLut());
  vpu.wait[3] = 1;
  EXPECT_TRUE(Has(Findings(Ended({vpu})), "waits for its own engine"));
  vpu.wait = {2, 0, 0, 0};
  EXPECT_TRUE(Has(Findings(Ended({ld, vpu})),
                  "command 1 (LUT): deadlock: waits for 2 commands of LD, of which 1 can complete"));
  vpu.wait = {1, 0, 0, 0};
  ld.wait = {0, 0, 0, 1};
  const std::string cycle = Findings(Ended({ld, vpu}));
  EXPECT_TRUE(Has(cycle, "command 0 (DMA): deadlock: waits for 1 commands of VPU, of which 0 can complete"));
  EXPECT_TRUE(Has(cycle, "command 1 (LUT): deadlock"));
  EXPECT_TRUE(Has(Findings(Stream{ld}), "does not end in END"));
  EXPECT_TRUE(Has(Findings(Stream{Command(), Command()}), "END before the end"));
  MemorySizes big = Sizes();
  big.sram_bytes = int64_t{1} << 40;
  EXPECT_TRUE(Has(Findings(Stream{Command()}, Edge2t(), big),
                  "the stream uses 1099511627776 bytes of sram, edge-2t has 2097152"));
}

TEST(Verify, RacesAreNamed) {
  isa::Dma d;
  d.src = isa::NhwcView({Region::Arena, 0, 0}, DType::I8, 1, 1, 1, 256);
  d.dst = isa::NhwcView(Sram(0), DType::I8, 1, 1, 1, 256);
  const Command ld = Of(Engine::LD, d);
  Command vpu = Of(Engine::VPU, GoodLut());
  EXPECT_TRUE(Has(Findings(Ended({ld, vpu})), "command 1 (LUT): race with command 0 (DMA on LD): its in and the "
                                              "other's dst meet in sram bytes 0 to 256, and nothing orders them"));
  vpu.wait[0] = 1;
  EXPECT_EQ(Findings(Ended({ld, vpu})), "");
  // The stream's order between engines means nothing: here the second one runs first, by its waits.
  Command late = ld;
  late.wait[3] = 1;
  EXPECT_EQ(Findings(Ended({late, Of(Engine::VPU, GoodLut())})), "");
}

// Sound copies and elementwise commands with random waits on earlier commands: races are found exactly when counting
// finds them.
TEST(Verify, RandomStreamsRaceExactlyWhenCountingSaysSo) {
  std::mt19937 rng(21);
  int racy = 0, clean = 0;
  for (int round = 0; round < 200; ++round) {
    Stream s;
    std::array<uint32_t, 4> issued{};
    const int n = 3 + static_cast<int>(rng() % 6);
    for (int i = 0; i < n; ++i) {
      const View shape = RandomView(rng, Region::Sram);
      auto view = [&](Region r, int64_t base) {
        View v = RandomView(rng, r);
        v.h = shape.h;
        v.w = shape.w;
        v.c_block = shape.c + rng() % 3;
        v.c = shape.c;
        v.c0 = rng() % (v.c_block - v.c + 1);
        v.stride_w = v.c_block + static_cast<int64_t>(rng() % 2);
        v.stride_h = v.stride_w * v.w;
        v.address.offset = base + static_cast<int64_t>(rng() % 200);
        v.tail = isa::Tail::Keep;
        return v;
      };
      Command c;
      const int kind = static_cast<int>(rng() % 3);
      if (kind < 2) {
        isa::Dma d;
        d.src = view(kind == 0 ? Region::Arena : Region::Sram, 0);
        d.dst = view(kind == 0 ? Region::Sram : Region::Arena, 0);
        c.body = d;
        c.engine = kind == 0 ? Engine::LD : Engine::ST;
      } else {
        isa::Elem e;
        e.in[0] = view(Region::Sram, 0);
        e.out = view(Region::Sram, 900);
        if (rng() % 2)
          std::swap(e.in[0], e.out);
        c.body = e;
        c.engine = Engine::VPU;
      }
      const int engine = static_cast<int>(c.engine);
      for (int f = 0; f < 4; ++f)
        if (f != engine && issued[f] && rng() % 3)
          c.wait[f] = issued[f] - rng() % 2;
      ++issued[engine];
      s.push_back(c);
    }
    const bool expected = !UnorderedConflicts(s, Conflicts(s)).empty();
    const std::string found = Findings(Ended(s));
    ASSERT_EQ(!found.empty(), expected) << found;
    (expected ? racy : clean)++;
  }
  EXPECT_GT(racy, 20);
  EXPECT_GT(clean, 20);
}

// Double-buffered tiles: load, convolve, store; waits derived.
Stream Tiles(int count) {
  Stream s;
  for (int t = 0; t < count; ++t) {
    const int64_t base = t % 2 * 16384;
    isa::Dma in;
    in.src = isa::NhwcView({Region::Arena, 0, 0}, DType::I8, 1, 8, 8, 16);
    in.dst = isa::NhwcView(Sram(base), DType::I8, 1, 8, 8, 16);
    s.push_back(Of(Engine::LD, in));
    isa::Dma w;
    w.src = isa::NhwcView({Region::Const, 0, 0}, DType::I8, 1, 1, 1, 4608 + 512);
    w.dst = isa::NhwcView(Sram(base + 4096), DType::I8, 1, 1, 1, 4608 + 512);
    s.push_back(Of(Engine::LD, w));
    isa::Conv c = GoodConv();
    c.in = in.dst;
    c.weights = w.dst.address;
    c.table = Sram(base + 4096 + 4608);
    c.out = isa::NhwcView(Sram(base + 12288), DType::U8, 1, 8, 8, 32);
    s.push_back(Of(Engine::MXU, c));
    isa::Dma out;
    out.src = c.out;
    out.dst = isa::NhwcView({Region::Arena, 0, 4096}, DType::U8, 1, 8, 8, 32);
    s.push_back(Of(Engine::ST, out));
  }
  DeriveWaits(s);
  s.emplace_back();
  return s;
}

TEST(Mutations, EveryDroppedOrLoweredWaitIsARace) {
  const Stream s = Tiles(5);
  ASSERT_EQ(Findings(s), "");
  int waits = 0;
  for (const Mutation &m : EnumerateMutations(s, {})) {
    ++waits;
    EXPECT_TRUE(Has(Findings(Apply(s, m)), "race")) << m.text;
  }
  EXPECT_GT(waits, 15);
}

TEST(Mutations, MovedAddressesAreOutOfBoundsOrMeetSomething) {
  const Stream s = Tiles(4);
  MemorySizes tight = Sizes(); // exactly what the stream uses
  tight.arena_bytes = 4096 + 2048;
  tight.sram_bytes = 16384 + 12288 + 2048;
  tight.const_bytes = 4608 + 512;
  ASSERT_EQ(Findings(s, Edge2t(), tight), "");
  int found = 0, safe = 0;
  for (const Mutation &m : EnumerateMutations(s, {65536, -65536, 12288})) {
    if (m.kind != Mutation::Kind::MoveAddress)
      continue;
    const bool caught = !Findings(Apply(s, m), Edge2t(), tight).empty();
    if (m.delta != 12288)
      EXPECT_TRUE(caught) << m.text;
    (caught ? found : safe)++;
  }
  EXPECT_GT(found, safe);
}

// Damaged words that still decode: verified without a crash (test/fuzz/isa_fuzz.cc does this at length, with the
// sanitizers).
TEST(Verify, DamagedStreamsAreVerifiedWithoutACrash) {
  Stream s = {Of(Engine::LD, GoodDma()),     Of(Engine::LD, GoodGather()),  Of(Engine::MXU, GoodConv()),
              Of(Engine::MXU, GoodMatMul()), Of(Engine::VPU, GoodElem()),   Of(Engine::VPU, GoodLut()),
              Of(Engine::VPU, GoodPool()),   Of(Engine::VPU, GoodReduce()), Of(Engine::VPU, GoodNorm()),
              Of(Engine::VPU, GoodResize())};
  s.emplace_back();
  const std::vector<uint32_t> words = isa::Encode(s);
  std::mt19937 rng(17);
  int verified = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint32_t> w = words;
    for (int k = 1 + static_cast<int>(rng() % 3); k > 0; --k)
      w[rng() % w.size()] ^= rng() % 2 ? 1u << rng() % 32 : static_cast<uint32_t>(rng());
    const auto back = isa::Decode(w);
    if (!back.ok())
      continue;
    ++verified;
    VerifyStream(*back, Edge2t(), Sizes());
  }
  EXPECT_GT(verified, 2000);
}

TEST(Verify, ManyCommandsQuickly) {
  const Stream s = Tiles(10000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Findings(s), "");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("40000 commands: %.2f s\n", seconds);
  EXPECT_LT(seconds, 10);
}

} // namespace
} // namespace npuc::verify
