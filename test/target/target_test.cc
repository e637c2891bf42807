#include "compiler/target/target.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"

#include <gtest/gtest.h>

#include <set>

namespace npuc {
namespace {

Target Preset(std::string_view name) {
  StatusOr<Target> t = Target::FromPreset(name);
  EXPECT_TRUE(t.ok()) << Render(FromStatus(t.status()));
  return t.ok() ? *t : Target();
}

// The description of edge-2t with one piece replaced.
std::string Edited(std::string_view from, std::string_view to) {
  std::string text(Target::PresetText("edge-2t"));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string ErrorOf(std::string_view from, std::string_view to) {
  StatusOr<Target> t = Target::FromText(Edited(from, to), "my.yaml");
  return t.ok() ? "no error" : Render(FromStatus(t.status()));
}

TEST(Target, PresetsAreThoseOfTheFolder) {
  EXPECT_EQ(Target::PresetNames(), (std::vector<std::string>{"edge-1t", "edge-20t", "edge-2t", "edge-6t", "mcu-128",
                                                             "u55-256-like", "u65-512-like"}));
  for (const std::string &name : Target::PresetNames()) {
    const std::string path = NPUC_SOURCE_DIR "/targets/" + name + ".yaml";
    EXPECT_EQ(*ReadTextFile(path), Target::PresetText(name));
    EXPECT_EQ(Preset(name), *Target::FromFile(path));
    EXPECT_EQ(Preset(name).name, name);
  }
}

TEST(Target, ReadsEveryNumber) { // by hand from targets/edge-2t.yaml
  const Target t = Preset("edge-2t");
  EXPECT_EQ(t.description, "2 TOPS edge SoC, 2 MiB on chip (the default)");
  EXPECT_EQ(t.clock_mhz, Rational(1000));
  EXPECT_EQ(t.issue_cycles, 4);
  EXPECT_EQ(t.dtypes, (std::vector<DType>{DType::I8, DType::U8, DType::I16, DType::F16}));
  EXPECT_EQ(t.mxu.px, 4);
  EXPECT_EQ(t.mxu.oc, 16);
  EXPECT_EQ(t.mxu.ic, 16);
  EXPECT_EQ(t.MacsPerCycle(), 1024);
  EXPECT_TRUE(t.mxu.HasTraversal(Traversal::Kernel));
  EXPECT_FALSE(t.mxu.HasTraversal(Traversal::PartKernel));
  EXPECT_EQ(t.mxu.dw_taps, 2);
  EXPECT_EQ(t.mxu.dw_granule, 1);
  EXPECT_EQ(t.mxu.MacRate(DType::U8), Rational(1));
  EXPECT_EQ(t.mxu.MacRate(DType::I16), Rational(1, 2));
  EXPECT_EQ(t.mxu.acc_bytes, 65536);
  EXPECT_EQ(t.mxu.ibuf_bytes, 32768);
  EXPECT_EQ(t.mxu.pipeline_fill, 16);
  EXPECT_EQ(t.mxu.weight_bytes_per_cycle, Rational(128));
  EXPECT_EQ(t.mxu.PpuRate(DType::F16), Rational(32));
  EXPECT_EQ(t.vpu.Lanes(DType::I8), Rational(64));
  EXPECT_EQ(t.vpu.Lanes(DType::F32), Rational(16));
  EXPECT_EQ(t.vpu.Passes(VpuFunction::Add), Rational(1));
  EXPECT_EQ(t.vpu.Passes(VpuFunction::Lut16), Rational(2));
  EXPECT_EQ(t.vpu.Passes(VpuFunction::Sigmoid), Rational(6));
  EXPECT_EQ(t.vpu.Passes(VpuFunction::ResizeLinear), Rational(4));
  EXPECT_EQ(t.sram.bytes, 2097152);
  EXPECT_EQ(t.sram.bytes_per_cycle, Rational(256));
  EXPECT_EQ(t.dma.ddr_bytes_per_cycle, Rational(64, 5)); // 12.8 exactly
  EXPECT_EQ(t.dma.ddr_burst_bytes, 64);
  EXPECT_EQ(t.dma.read_latency, 150);
  EXPECT_EQ(t.dma.write_latency, 100);
  EXPECT_EQ(t.dma.outstanding, 4);
  EXPECT_EQ(t.dma.rearrange_elems_per_cycle, Rational(16));
  EXPECT_EQ(t.C2(DType::I8), 16);
  EXPECT_EQ(t.C2(DType::F16), 8);
  EXPECT_EQ(t.C2(DType::F32), 4);
  EXPECT_EQ(t.C2(DType::I64), 2);
  EXPECT_EQ(t.limits.kernel_max, (std::array<int64_t, 2>{16, 16}));
  EXPECT_EQ(t.limits.stride_max, (std::array<int64_t, 2>{4, 4}));
  EXPECT_EQ(t.limits.dilation_max, (std::array<int64_t, 2>{8, 8}));
  EXPECT_EQ(t.limits.dims_max, 65536);
  EXPECT_EQ(t.host.gflops, Rational(2));
  EXPECT_EQ(t.host.bytes_per_ns, Rational(16, 5));
  EXPECT_EQ(t.energy.PjMac(DType::I8), Rational(2, 5));
  EXPECT_EQ(t.energy.PjMac(DType::U8), Rational(2, 5));
  EXPECT_EQ(t.energy.PjMac(DType::I16), Rational(4, 5));
  EXPECT_EQ(t.energy.pj_sram_byte, Rational(4, 5));
  EXPECT_EQ(t.energy.pj_ddr_byte, Rational(40));
  EXPECT_EQ(t.energy.idle_mw, Rational(60));
}

TEST(Target, IntegerOnlyMachines) {
  const Target t = Preset("u65-512-like");
  EXPECT_FALSE(t.HasFloat());
  EXPECT_FALSE(t.Supports(DType::F16));
  EXPECT_TRUE(t.Supports(DType::I16));
  EXPECT_TRUE(t.mxu.HasTraversal(Traversal::PartKernel));
  EXPECT_EQ(t.vpu.Passes(VpuFunction::Pool), Rational(1, 8));
  EXPECT_EQ(t.dma.ddr_bytes_per_cycle, Rational(15, 4));
  EXPECT_TRUE(Preset("edge-1t").HasFloat());
}

TEST(Target, CanonicalTextRoundTripsAndIsIndependentOfFormatting) {
  std::set<std::string> hashes;
  for (const std::string &name : Target::PresetNames()) {
    const Target t = Preset(name);
    const std::string text = t.ToCanonicalYaml();
    StatusOr<Target> again = Target::FromText(text, "embedded");
    ASSERT_TRUE(again.ok()) << Render(FromStatus(again.status())) << text;
    EXPECT_EQ(*again, t);
    EXPECT_EQ(again->ToCanonicalYaml(), text);
    EXPECT_EQ(again->Sha256(), t.Sha256());
    hashes.insert(t.Sha256());
  }
  EXPECT_EQ(hashes.size(), 7u);
  const Target edited = *Target::FromText(Edited("px: 4", "px: 4   # four\n\n"), "x");
  EXPECT_EQ(edited.Sha256(), Preset("edge-2t").Sha256());
  const Target other = *Target::FromText(Edited("px: 4", "px: 5"), "x");
  EXPECT_NE(other.Sha256(), Preset("edge-2t").Sha256());
  const Target quotes = *Target::FromText(Edited("\"2 TOPS", "\"a \\\"b\\\" \\\\ # "), "x");
  EXPECT_EQ(quotes.description.substr(0, 9), "a \"b\" \\ #");
  EXPECT_EQ(*Target::FromText(quotes.ToCanonicalYaml(), "y"), quotes);
}

TEST(Target, CanonicalTextLooksLikeThis) {
  const std::string text = Preset("mcu-128").ToCanonicalYaml();
  EXPECT_EQ(text.substr(0, text.find("vpu:")), R"(name: mcu-128
description: "Microcontroller class: 128 MAC/cycle, integer only, weights in flash"
clock_mhz: 500
issue_cycles: 4
dtypes: [i8, u8, i16]
mxu:
  px: 2
  oc: 8
  ic: 8
  traversals: [depth, row, kernel]
  dw_taps: 1
  dw_granule: 1
  mac_rate: { i8: 1, u8: 1, i16: 0.5 }
  acc_bytes: 16384
  ibuf_bytes: 16384
  pipeline_fill: 8
  weight_bytes_per_cycle: 8
  ppu_rate: { i8: 2, u8: 2, i16: 1 }
)");
}

TEST(TargetErrors, NamePlaceFoundAndAllowed) {
  EXPECT_EQ(ErrorOf("px: 4", "px: -4"),
            "my.yaml:8:7: error[E0505]: mxu.px: found -4, allowed is a whole number from 1 to 4096");
  EXPECT_EQ(ErrorOf("px: 4", "px: 4.5"),
            "my.yaml:8:7: error[E0505]: mxu.px: found 4.5, allowed is a whole number from 1 to 4096");
  EXPECT_EQ(ErrorOf("px: 4", "px: \"4\""),
            "my.yaml:8:7: error[E0505]: mxu.px: found \"4\", allowed is a whole number from 1 to 4096");
  EXPECT_EQ(ErrorOf("px: 4", "px: [4]"),
            "my.yaml:8:7: error[E0505]: mxu.px: found a list of 1, allowed is a whole number from 1 to 4096");
  EXPECT_EQ(ErrorOf("  px: 4", "  pxx: 4"), "my.yaml:8:3: error[E0504]: mxu lacks the key 'px'");
  EXPECT_EQ(ErrorOf("  px: 4", "  px: 4\n  icc: 3"),
            "my.yaml:9:3: error[E0503]: mxu has no key 'icc'\n  help: did you mean 'ic'?");
  EXPECT_EQ(ErrorOf("  px: 4", "  px: 4\n  px: 3"), "my.yaml:9:3: error[E0503]: the key 'px' is repeated");
  EXPECT_EQ(ErrorOf("clock_mhz: 1000", "clock_mhz: fast"),
            "my.yaml:4:12: error[E0505]: clock_mhz: found fast, allowed is a decimal number from 0.000001 to 100000, "
            "at most 9 decimals");
  EXPECT_EQ(ErrorOf("ddr_bytes_per_cycle: 12.8", "ddr_bytes_per_cycle: 0").substr(0, 62),
            "my.yaml:30:24: error[E0505]: dma.ddr_bytes_per_cycle: found 0,");
  EXPECT_EQ(ErrorOf("dtypes: [i8, u8, i16, f16]", "dtypes: [i8, u8, i16, f64]"),
            "my.yaml:6:23: error[E0505]: dtypes: found f64, allowed is each of i8, u8, i16, f16 at most once");
  EXPECT_EQ(ErrorOf("traversals: [depth, row, kernel]", "traversals: [row]"),
            "my.yaml:11:15: error[E0505]: mxu.traversals: found a list of 1, allowed is a list with depth in it");
  EXPECT_EQ(ErrorOf("kernel_max: [16, 16]", "kernel_max: [16]"),
            "my.yaml:39:15: error[E0505]: limits.kernel_max: found a list of 1, allowed is [height, width], each from "
            "1 to 4096");
  EXPECT_EQ(ErrorOf("ddr_burst_bytes: 64", "ddr_burst_bytes: 48"),
            "my.yaml:31:20: error[E0505]: dma.ddr_burst_bytes: found 48, allowed is a power of two from 1 to 65536");
  EXPECT_EQ(ErrorOf("c2: { i8: 16", "c2: { i8: 12"),
            "my.yaml:37:13: error[E0505]: layout.c2.i8: found 12, allowed is a number of lanes that fills whole units "
            "of 16 bytes");
  EXPECT_EQ(ErrorOf("acc_bytes: 65536", "acc_bytes: 64"),
            "my.yaml:15:14: error[E0505]: mxu.acc_bytes: found 64, allowed is an even number with room for oc 48-bit "
            "accumulators (8 bytes each) in each half");
  EXPECT_EQ(ErrorOf("name: edge-2t", "name: \"edge 2t\"").substr(0, 40), "my.yaml:2:7: error[E0505]: name: found \"");
  EXPECT_EQ(ErrorOf("sram:", "sram: 3\nsramx:"),
            "my.yaml:26:7: error[E0505]: sram: found 3, allowed is a map of keys and values");
}

TEST(TargetErrors, EveryVpuFunctionMustBePriced) {
  EXPECT_EQ(ErrorOf("gelu: 8, ", ""), "my.yaml:22:11: error[E0504]: vpu.passes lacks the key 'gelu'");
  EXPECT_EQ(ErrorOf("gelu: 8, ", "gelu: 8, gellu: 8, ").substr(0, 58),
            "my.yaml:25:30: error[E0503]: vpu.passes has no key 'gellu'");
}

TEST(TargetErrors, RatesAreForTheMachinesTypes) {
  EXPECT_EQ(ErrorOf("dtypes: [i8, u8, i16, f16]", "dtypes: [i8, u8, i16]"),
            "my.yaml:14:39: error[E0503]: mxu.mac_rate has no key 'f16'\n  help: did you mean 'i16'?");
  EXPECT_EQ(ErrorOf("mac_rate: { i8: 1, u8: 1, i16: 0.5, f16: 0.5 }", "mac_rate: { i8: 1, u8: 1, i16: 0.5 }"),
            "my.yaml:14:13: error[E0504]: mxu.mac_rate lacks the key 'f16'");
  EXPECT_EQ(ErrorOf("i32: 16, f32: 16", "i32: 16"), "my.yaml:21:10: error[E0504]: vpu.lanes lacks the key 'f32'");
}

TEST(TargetErrors, Syntax) {
  EXPECT_EQ(ErrorOf("  px: 4", "  px: [4").substr(0, 28), "my.yaml:10:5: error[E0502]: ");
  EXPECT_EQ(ErrorOf("  px: 4", "  px: &a 4"), "my.yaml:8:10: error[E0502]: anchors are not supported");
  EXPECT_EQ(ErrorOf("  px: 4", "  px: *a"), "my.yaml:9:3: error[E0502]: aliases are not supported");
  for (std::string_view text : {"", "3", "- a", "a: b\n---\nc: d", "\x01\x02\xff", "{", "a: b: c", "\t- x"}) {
    StatusOr<Target> t = Target::FromText(text, "f");
    ASSERT_FALSE(t.ok()) << text;
    EXPECT_EQ(ErrorCode(t.status()).substr(0, 4), "E050") << text;
  }
  EXPECT_EQ(Render(FromStatus(Target::FromText(std::string("a: b\nc\0d", 8), "f").status())),
            "f:2:1: error[E0502]: a zero byte: this is not a text file");
}

// Any line removed or any digit replaced must give an error or a target, never a crash.
TEST(TargetErrors, DamagedFiles) {
  const std::string text(Target::PresetText("edge-2t"));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string cut = text.substr(0, i);
    (void)Target::FromText(cut, "cut");
    std::string changed = text;
    changed[i] = "{}[]:,-\n #\"'x9"[i % 14];
    (void)Target::FromText(changed, "changed");
  }
}

TEST(TargetErrors, PresetsAndFiles) {
  EXPECT_EQ(Render(FromStatus(Target::FromPreset("edge-3t").status())),
            "error[E0506]: no target 'edge-3t'\n  help: did you mean 'edge-1t'?");
  EXPECT_EQ(ErrorCode(Target::FromNameOrFile("none.yaml").status()), "E0101");
  EXPECT_EQ(ErrorCode(Target::FromNameOrFile("./edge-2t").status()), "E0101");
  EXPECT_EQ(Target::FromNameOrFile("edge-2t")->name, "edge-2t");
  EXPECT_EQ(Target::FromNameOrFile(NPUC_SOURCE_DIR "/targets/mcu-128.yaml")->name, "mcu-128");
  EXPECT_TRUE(Target::FromPreset(kDefaultTarget).ok());
}

TEST(VpuFunction, NamesRoundTrip) {
  EXPECT_EQ(kNumVpuFunctions, 44);
  for (int i = 0; i < kNumVpuFunctions; ++i)
    EXPECT_EQ(ParseVpuFunction(Name(static_cast<VpuFunction>(i))), static_cast<VpuFunction>(i));
  EXPECT_EQ(Name(VpuFunction::ResizeNearest), "resize_nearest");
  EXPECT_EQ(ParseVpuFunction("frobnicate"), std::nullopt);
}

} // namespace
} // namespace npuc
