// Disassembler and assembler.
#include <gtest/gtest.h>

#include "backend/isa/isa.h"
#include "compiler/support/diagnostic.h"
#include "test/isa/random_command.h"

namespace npuc::isa {
namespace {

TEST(Text, Listing) {
  Conv c;
  c.in = NhwcView({Region::Sram, 0, 0x40}, DType::I8, 1, 10, 10, 16);
  c.out = BlockedView({Region::Sram, 0, 0x4000}, DType::I8, 1, 8, 8, 20, 16);
  c.out.tail = Tail::Fill;
  c.out.zero = -128;
  c.weights = {Region::Sram, 0, 0x8000};
  c.weight_bytes = 4608;
  c.table = {Region::Sram, 0, 0xa000};
  c.kernel_h = c.kernel_w = 3;
  c.in_zero = 5;
  MicroOp quantise;
  quantise.kind = MicroKind::Quantise;
  quantise.requant = true;
  quantise.dtype = DType::I8;
  quantise.quant = {0.5f, -128};
  c.stage = {MicroOp(), quantise};
  c.operands[1].view = c.in.Sub(0, 1, 1, 4, 1, 8, 8, 8);
  c.operands[1].quant = {0.25f, 3};
  Command cmd;
  cmd.engine = Engine::MXU;
  cmd.layer = 3;
  cmd.wait = {2, 0, 0, 7};
  cmd.body = c;
  EXPECT_EQ(Disassemble(cmd), "MXU CONV layer=3 wait=[LD:2,VPU:7] in=sram+0x40 i8 [1,10,10,16]/16 out=sram+0x4000 i8 "
                              "[1,8,8,20]/16 tail=fill zero=-128 "
                              "weights=sram+0x8000 weight_bytes=4608 table=sram+0xa000 kernel_h=3 kernel_w=3 in_zero=5 "
                              "operands=[{}, {view=sram+0xf0 i8 [1,8,8,8]/16+4 {1600,1600,160,16} quant=0.25:3}] "
                              "stage=[Scale Quantise{requant=1 dtype=i8 quant=0.5:-128}]");
  const auto back = Assemble(Disassemble(cmd));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, cmd);
}

TEST(Text, SymbolicBuffersAndNegativeOffsets) {
  Dma d;
  d.src = NchwView({Region::Buffer, 7, 0x40}, DType::F16, 1, 2, 3, 4);
  d.dst = NhwcView({Region::Buffer, 8, -32}, DType::F16, 1, 2, 3, 4);
  Command c;
  c.engine = Engine::LD;
  c.body = d;
  EXPECT_EQ(Disassemble(c), "LD DMA src=buf7+0x40 f16 [1,2,3,4] dst=buf8-0x20 f16 [1,2,3,4]/4");
  EXPECT_EQ(*Assemble(Disassemble(c)), c);
}

TEST(Text, End) {
  EXPECT_EQ(Disassemble(Command()), "LD END");
  EXPECT_EQ(*Assemble("LD END"), Command());
}

TEST(Text, RandomCommandsComeBackEqual) {
  RandomFields random(11);
  for (int i = 0; i < 3000; ++i) {
    const Command c = random.Next(i % std::variant_size_v<CommandBody>);
    const std::string text = Disassemble(c);
    const auto back = Assemble(text);
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
    ASSERT_EQ(*back, c) << text;
    EXPECT_EQ(Disassemble(*back), text);
  }
}

TEST(Text, BrokenLinesAreRefused) {
  struct {
    const char *line;
    const char *what;
  } cases[] = {
      {"", "column 1: '' is no engine"},
      {"XX DMA", "'XX' is no engine"},
      {"LD CONV", "LD cannot run CONV"},
      {"LD JUMP", "column 4: 'JUMP' is no opcode"},
      {"LD DMA sauce=1", "column 8: there is no field sauce"},
      {"LD DMA mode=Copy mode=Copy", "column 18: mode is given twice"},
      {"LD DMA mode=Kopy", "'Kopy' is no value of this field"},
      {"LD DMA src=sram+0x40 i9 [1,1,1,1]", "'i9' is no element type"},
      {"LD DMA src=sram+64 i8 [1,1,1,1]", "'0' expected"},
      {"LD DMA src=sram+0x0 i8 [1,1,1]", "',' expected"},
      {"LD DMA src=sram+0x0 i8 [1,1,1,99999999999]", "an integer in range expected"},
      {"LD END extra=1", "there is no field extra"},
      {"MXU CONV stage=[Scale Scale Scale Scale Scale Scale Scale Scale Scale]", "more than 8 micro-operations"},
      {"VPU ELEM in_quant=[1:0, 1:0]", "',' expected"},
      {"LD DMA wait=[LD:2", "']' expected"},
  };
  for (const auto &c : cases) {
    const auto r = Assemble(c.line);
    ASSERT_FALSE(r.ok()) << c.line;
    EXPECT_EQ(ErrorCode(r.status()), "E0604");
    EXPECT_NE(Message(r.status()).find(c.what), std::string_view::npos) << c.line << " -> " << Message(r.status());
  }
}

} // namespace
} // namespace npuc::isa
