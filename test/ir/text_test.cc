// The text form: what is printed reads back as the same module, whatever is in it; and what can't be read is told with
// its place.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

const OpDef *Everything() {
  return LookupOp("test", "Everything");
}

std::unique_ptr<Module> RoundTrip(const Module &m) {
  const std::string text = Print(m);
  auto back = ParseModule(text, "x.ir");
  EXPECT_TRUE(back.ok()) << back.status() << "\n" << text;
  if (!back.ok())
    return nullptr;
  EXPECT_EQ(Hash(m), Hash(**back)) << text << "---\n" << Print(**back);
  EXPECT_EQ(text, Print(**back));
  return std::move(*back);
}

TEST(Text, ReadsLikeTheExampleInTheDocument) {
  const std::string text = R"(module "mnist.onnx" {
  ir_version 8
  opset "" 13
  opset "com.microsoft" 1
  producer "pytorch"
  metadata "author" = "N. N."
  nodes {
    0: Conv "conv" name "Conv 0"
    1: com.microsoft::QLinearAdd "qadd"
  }
  graph (%Input3: f32[1,1,28,28], %"a/b:0": u8[1,batch]{s=0.5,z=128}) {
    %w: f32[8,1,5,5] = Constant() {value = splat<0.25>}
    %Plus30: f32[1,8,28,28]:NHWC = Conv(%Input3, %w) {kernel_shape = [5, 5], pads = [2, 2, 2, 2]} origin(0, 1) @npu
    %c: f32[1,8,28,28] = Clip(%Plus30, _, %w) @host
    return %Plus30 as "Plus30_Output_0", %c
  }
}
)";
  auto m = ParseModule(text);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(Print(**m), text);
  EXPECT_TRUE(Verify(**m).ok()) << Verify(**m);
  const Graph &g = (*m)->main();
  EXPECT_EQ(g.output(0)->def()->placement(), Placement::Npu);
  EXPECT_EQ(g.output(0)->def()->origin(), (Origin{0, 1}));
  EXPECT_EQ(g.output(1)->def()->operand(1), nullptr);
  EXPECT_EQ((*m)->onnx_nodes()[1].name, "qadd");
  EXPECT_EQ(g.input(1)->type().quant()->zero_points[0], 128);
  EXPECT_EQ(PrintNode(*g.output(1)->def()), "%c: f32[1,8,28,28] = Clip(%Plus30, _, %w) @host");
}

TEST(Text, NastyNames) {
  const std::string names[] = {"a b",
                               "é/ü:0",
                               "quote\"back\\slash",
                               "%x",
                               "",
                               "line\nfeed\ttab",
                               std::string("nul\0byte", 8),
                               "\xff\xfe",
                               "return",
                               "graph",
                               "_",
                               "1e5",
                               "-3",
                               "{}[]()<>,=@*?//",
                               "日本語",
                               "a.b$c-d_E",
                               "+",
                               "nan",
                               "0x12",
                               "\x7f",
                               "trailing\\"};
  Module m;
  m.file = "we\"ird\\na/me.onnx";
  m.producer = "p\n";
  m.metadata = {{"k \"", "v\\"}, {"", ""}};
  m.opsets = {{"", 21}, {"weird domain", 3}};
  Graph &g = m.main();
  for (const std::string &n : names) {
    m.onnx_nodes().push_back({n + "id", n, n.empty() ? "X" : n, n});
    Value *in = g.AddInput(n, Type::Tensor(DType::F32, Shape({2})));
    Node *node = g.AddNode(LookupOp("weird domain", "Op \"x\""), {in}, 1, {}, nullptr, {n + "!"});
    g.AddOutput(node->result(), n + "?");
  }
  g.AddOutput(g.input(0), "x");
  g.set_output_name(0, "");
  RoundTrip(m);
}

TEST(Text, EveryAttributeKind) {
  Module m;
  AttributeList &a = m.main().AddNode(Everything(), {}, 0, {})->attrs();
  a.Set("i", std::numeric_limits<int64_t>::min());
  a.Set("f", 1.0f);
  a.Set("s", std::string("x\"\\\x01"));
  a.Set("is", std::vector<int64_t>{0, -1, std::numeric_limits<int64_t>::max()});
  a.Set("fs", std::vector<float>{0.1f, -0.0f, 3.0f, 1e20f, 1e-45f, INFINITY, -INFINITY, std::nanf(""),
                                 std::bit_cast<float>(0xffc00001u)});
  a.Set("ss", std::vector<std::string>{"", "a,b", "]"});
  a.Set("t", Tensor::ScalarF32(0.1f));
  a.Set("ts", std::vector<Tensor>{Tensor(), Tensor::ScalarI64(3), Tensor::Strings({2}, {"a", "\""})});
  a.Set("ty", Type::Optional(Type::Sequence(Type::Tensor(DType::F32, Shape::Unranked()))));
  a.Set("a b", std::string());
  AttributeList &e = m.main().AddNode(Everything(), {}, 0, {})->attrs();
  e.Set("is", std::vector<int64_t>{});
  e.Set("fs", std::vector<float>{});
  e.Set("ss", std::vector<std::string>{});
  e.Set("ts", std::vector<Tensor>{});
  e.Set("t", Tensor());
  auto back = RoundTrip(m);
  ASSERT_TRUE(back);
  const AttributeList &b = back->main().nodes().begin()->attrs();
  for (const auto &entry : a) {
    ASSERT_TRUE(b.Has(entry.name)) << entry.name;
    if (entry.name != "ts")
      EXPECT_TRUE(SameAttribute(entry.value, *b.Find(entry.name))) << entry.name;
  }
}

TEST(Text, ListsWithoutKindFollowTheSchema) {
  auto m = ParseModule(R"(graph () { test::Everything() {f = 2, fs = [1, 2], is = [], ss = [], ts = []} return })");
  ASSERT_TRUE(m.ok()) << m.status();
  const AttributeList &a = (*m)->main().nodes().begin()->attrs();
  EXPECT_EQ(a.Float("f", 0), 2.0f);
  EXPECT_EQ(a.Floats("fs")[1], 2.0f);
  EXPECT_TRUE(Verify(**m).ok()) << Verify(**m);
}

TEST(Text, EveryDTypeAndConstantForm) {
  for (int d = 1; d < kNumDTypes; ++d) {
    const DType t = static_cast<DType>(d);
    Module m;
    Graph &g = m.main();
    if (t == DType::String) {
      g.AddOutput(g.AddConstant(Tensor::Strings({2, 1}, {"a\nb", ""})));
      g.AddOutput(g.AddConstant(Tensor::Strings({0}, {})));
      g.AddOutput(g.AddConstant(Tensor::Strings({40}, std::vector<std::string>(40, "é"))));
      RoundTrip(m);
      continue;
    }
    for (int64_t n : {0, 1, 5, 32, 33, 1000}) {
      Tensor x = Tensor::Allocate(t, {n});
      for (int64_t i = 0; i < n * ByteSize(t); ++i)
        x.mutable_bytes()[i] = static_cast<uint8_t>(i * 37 + d);
      g.AddOutput(g.AddConstant(x));
    }
    uint8_t ones[16];
    std::memset(ones, 0xff, sizeof ones); // -1 or a NaN with a payload
    g.AddOutput(g.AddConstant(Tensor::Splat(t, {}, ones)));
    g.AddOutput(g.AddConstant(Tensor::Splat(t, {1 << 20, 1 << 20}, ones)));
    g.AddOutput(g.AddConstant(Tensor::Splat(t, {0, 3}, ones)));
    g.AddOutput(g.AddConstant(Tensor::Allocate(t, {2, 2})));
    auto back = RoundTrip(m);
    ASSERT_TRUE(back) << Name(t);
    for (unsigned i = 0; i < g.num_outputs(); ++i) {
      EXPECT_EQ(g.output(i)->constant()->is_splat(), back->main().output(i)->constant()->is_splat());
      if (g.output(i)->constant()->num_stored_bytes() > 1 << 20)
        continue;
      EXPECT_EQ(g.output(i)->constant()->Hash(), back->main().output(i)->constant()->Hash()) << Name(t) << i;
    }
  }
}

TEST(Text, ConstantsAsAHumanWritesThem) {
  auto m = ParseModule(R"(graph () {
      %a: f16[3] = Constant() {value = dense<1, -0.5, inf>}  // comments too
      %b: i8[2,2] = Constant() {value = dense<-128, 127, 0, 1>}
      %c = Constant() {value = dense<bool[2]: true, false>}
      %d: c64[1] = Constant() {value = dense<(1, -2)>}
      %e: f32[2] = Constant() {value = base64<"AACAPwAAAEA=">}
      return %a, %b, %c, %d, %e })");
  ASSERT_TRUE(m.ok()) << m.status();
  Graph &g = (*m)->main();
  EXPECT_EQ(g.output(0)->constant()->AsDouble(1), -0.5);
  EXPECT_TRUE(std::isinf(g.output(0)->constant()->AsDouble(2)));
  EXPECT_EQ(g.output(1)->constant()->AsInt(0), -128);
  EXPECT_EQ(g.output(2)->constant()->AsInt(0), 1);
  EXPECT_EQ(g.output(3)->constant()->data<float>()[1], -2.0f);
  EXPECT_EQ(g.output(4)->constant()->AsDouble(1), 2.0);
  EXPECT_TRUE(g.output(2)->type().is_none());
  RoundTrip(**m);
}

TEST(Text, EveryType) {
  Module m;
  Graph &g = m.main();
  const auto axis = std::make_shared<const QuantParams>(QuantParams{{0.1f, 1e-7f, 3}, {0, -128, 127}, 1});
  const Type types[] = {
      Type(),
      Type::Tensor(DType::F32, Shape({})),
      Type::Tensor(DType::F32, Shape::Unranked()),
      Type::Tensor(DType::F32, Shape({0})),
      Type::Tensor(DType::F32, Shape(llvm::ArrayRef<Dim>{Dim(3), Dim::Symbol("batch"), Dim::Unknown()})),
      Type::Tensor(DType::F32, Shape(llvm::ArrayRef<Dim>{Dim::Symbol("batch size"), Dim::Symbol("a,b]"),
                                                         Dim::Symbol("3"), Dim::Symbol("*"), Dim::Symbol("é"),
                                                         Dim::Symbol("-x"), Dim::Symbol("N+1"), Dim::Symbol("nan")})),
      Type::Tensor(DType::I8, Shape({2, 3}), axis),
      Type::Tensor(DType::U8, Shape::UnknownDims(2), PerTensorQuant(0.003921569f, 128)),
      Type::Tensor(DType::I32, Shape({2, 3, 4}), PerTensorQuant(1, 0), Layout::NHWC),
      Type::Tensor(DType::F16, Shape({2, 3, 4, 5}), nullptr, Layout::NC1HWC2),
      Type::Sequence(Type::Tensor(DType::I64, Shape::Unranked())),
      Type::Optional(Type::Sequence(Type::Tensor(DType::String, Shape({1})))),
      Type::Map(DType::String, Type::Tensor(DType::F32, Shape({}))),
      Type::Sequence(Type::Map(DType::I64, Type::Tensor(DType::F64, Shape({1, 2})))),
      Type::Optional(Type()),
  };
  for (const Type &t : types)
    g.AddInput("", t);
  auto back = RoundTrip(m);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->main().input(6)->type(), types[6]);
  EXPECT_EQ(back->main().input(9)->type(), types[9]);
  EXPECT_EQ(back->main().input(13)->type(), types[13]);
  EXPECT_TRUE(Verify(m).ok()) << Verify(m);
}

TEST(Text, BodiesWithCaptures) {
  const std::string text = R"(module "" {
  graph (%c: bool[], %n: i64[], %x: f32[2]) {
    %k: f32[2] = Constant() {value = dense<1, 2>}
    %i: f32[2] = If(%c) graph () {
      %r: f32[2] = Relu(%x)
      %j: f32[2] = If(%c) graph () {
        %s: f32[2] = Add(%r, %k)
        return %s
      } graph () {
        return %x as "inner"
      }
      return %j
    } graph () {
      return %k
    }
    %l: f32[2], %all: f32[?,2] = Loop(%n, _, %i) graph (%it: i64[], %go: bool[], %state: f32[2]) {
      %t: f32[2] = Add(%state, %x)
      return %go, %t, %state
    }
    return %l as "L", %all
  }
}
)";
  auto m = ParseModule(text);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(Print(**m), text);
  RoundTrip(**m);
}

TEST(Text, WithoutDataIsForReadingOnly) {
  Module m;
  m.main().AddOutput(m.main().AddConstant(Tensor::Allocate(DType::F32, {100}), "w"));
  const std::string text = Print(m, false);
  EXPECT_NE(text.find("elided<f32[100]: 0x"), std::string::npos) << text;
  EXPECT_EQ(ErrorCode(ParseModule(text).status()), "E0210");
}

TEST(Hash, TellsModulesApart) {
  const char *base =
      R"(module "m" { nodes { 0: Relu "r" } graph (%x: f32[2], %y: f32[2]) { %k: f32[2] = Constant() {value = dense<0, 1>}
      %a: f32[2] = Add(%x, %y) origin(0) %b: f32[2] = Concat(%a, %k) {axis = 0} return %b as "o" } })";
  auto m = ParseModule(base);
  ASSERT_TRUE(m.ok()) << m.status();
  const uint64_t h = Hash(**m);
  const std::pair<const char *, const char *> changes[] = {
      {"Add(%x, %y)", "Add(%y, %x)"},
      {"dense<0, 1>", "dense<-0, 1>"},
      {"axis = 0", "axis = 1"},
      {"origin(0)", ""},
      {"origin(0)", "@npu"},
      {"%a: f32[2]", "%a: f32[n]"},
      {"%a: f32[2]", "%a"},
      {"as \"o\"", "as \"p\""},
      {"0: Relu \"r\"", "0: Relu \"q\""},
      {"%x: f32[2]", "%x: f16[2]"},
      {"%b: f32[2]", "%b: i32[2]{s=1,z=0}"},
      {"module \"m\"", "module \"n\""},
      {"dense<0, 1>", "splat<0>"},
  };
  for (auto [from, to] : changes) {
    std::string text = base;
    text.replace(text.find(from), std::strlen(from), to);
    auto other = ParseModule(text);
    ASSERT_TRUE(other.ok()) << other.status() << text;
    EXPECT_NE(Hash(**other), h) << from << " -> " << to;
  }
  EXPECT_EQ(Hash(**ParseModule(base)), h);
}

struct Broken {
  const char *text, *place, *code, *message;
};

TEST(Text, ErrorsNamePlaceFoundAndExpected) {
  const Broken cases[] = {
      {"", "t.ir:1:1", "E0210", "found the end of the text, expected 'module' or 'graph'"},
      {"modul", "t.ir:1:1", "E0210", "found 'modul', expected 'module' or 'graph'"},
      {"graph (%x: f33[2]) { return }", "t.ir:1:12", "E0210", "found 'f33', expected a type"},
      {"graph (%x: f32[2) { return }", "t.ir:1:17", "E0210", "found ')', expected ',' or ']'"},
      {"graph (%x: f32[-2]) { return }", "t.ir:1:16", "E0210", "found '-2', expected an extent of 0 or more"},
      {"graph (%x: f32[2]) {\n  %y = Relu(%z)\n return }", "t.ir:2:14", "E0210",
       "value '%z' is not defined before this use"},
      {"graph (%x) {\n  %y = Relv(%x) return }", "t.ir:2:8", "E0205", "operator 'Relv' is unknown"},
      {"graph (%x) { %y = a.b::Relu(%x) return }", "t.ir:1:19", "E0205", "operator 'a.b::Relu' is unknown"},
      {"graph (%x) { %y = npuc::Return(%x) return }", "t.ir:1:19", "E0205", "operator 'npuc::Return' is unknown"},
      {"graph (%x, %x) { return }", "t.ir:1:13", "E0210", "two values are called 'x'"},
      {"graph (%x) { %x = Relu(%x) return }", "t.ir:1:15", "E0210", "two values are called 'x'"},
      {"graph (%x) { %y, %y = Split(%x) return }", "t.ir:1:19", "E0210", "two values are called 'y'"},
      {"graph (%x) { %y = Relu(%x) ", "t.ir:1:28", "E0210", "found the end of the text, expected a name"},
      {"graph (%x) { }", "t.ir:1:14", "E0210", "found '}', expected a node or 'return'"},
      {"graph () { %y = Constant() {value = dense<f32[2]: 1>} return }", "t.ir:1:37", "E0210",
       "found 1 elements, expected 2 for f32[2]"},
      {"graph () { %y = Constant() {value = dense<1>} return }", "t.ir:1:43", "E0210",
       "found '1', expected the tensor's element type and shape"},
      {"graph () { %y: i8[1] = Constant() {value = dense<128>} return }", "t.ir:1:50", "E0210", "128 does not fit i8"},
      {"graph () { %y: f32[1] = Constant() {value = base64<\"!\">} return }", "t.ir:1:52", "E0210",
       "the data is not base64"},
      {"graph () { %y: f32[1] = Constant() {value = base64<\"AAA=\">} return }", "t.ir:1:45", "E0210",
       "found 0 elements, expected 1"},
      {"graph () { %y = Constant() {value = dense<f32[9999999999,9999999999]: 1>} return }", "t.ir:1:43", "E0210",
       "no tensor has this"},
      {"graph (%x) { %y = Concat(%x) {axis = 0, axis = 1} return }", "t.ir:1:41", "E0210",
       "attribute 'axis' is given twice"},
      {"graph (%x) { %y = Concat(%x) {axis = } return }", "t.ir:1:38", "E0210",
       "found '}', expected an attribute's value"},
      {"graph (%x) { %y = Concat(%x) {axes = []} return }", "t.ir:1:39", "E0210",
       "an empty list does not show its kind"},
      {"graph (%x) { %y = Relu(%x) origin(0) return }", "t.ir:1:34", "E0210", "origin 0 of 0 ONNX nodes"},
      {"graph (%x) { %y = Relu(%x) @gpu return }", "t.ir:1:29", "E0210", "found 'gpu', expected 'npu' or 'host'"},
      {"graph (%\"x) { return }", "t.ir:1:9", "E0210", "a string without its closing quote"},
      {"graph (%\"\\q\") { return }", "t.ir:1:9", "E0210", "an escape other than"},
      {"graph (%x) { return _ }", "t.ir:1:21", "E0210", "an output can't be absent"},
      {"graph () { return } x", "t.ir:1:21", "E0210", "found 'x', expected the end of the text"},
      {"graph (;) { return }", "t.ir:1:8", "E0210", "a character that begins nothing here (;)"},
      {"module \"m\" { nodes { 1: Relu \"r\" } graph () { return } }", "t.ir:1:22", "E0210",
       "found node 1, expected 0"},
      {"graph (%c) { %i = If(%c) graph () { %r = Relu(%c) return %r } graph () { return %r } return }", "t.ir:1:82",
       "E0210", "value '%r' is not defined"},
  };
  for (const Broken &b : cases) {
    auto m = ParseModule(b.text, "t.ir");
    ASSERT_FALSE(m.ok()) << b.text;
    const Diagnostic d = FromStatus(m.status());
    EXPECT_EQ(d.code, b.code) << b.text << "\n" << Render(d);
    EXPECT_EQ(d.file, b.place) << b.text << "\n" << Render(d);
    EXPECT_NE(d.message.find(b.message), std::string::npos) << b.text << "\n" << Render(d);
  }
}

TEST(Text, DeepNestingIsRefusedNotOverflowed) {
  std::string types = "graph (%x: ";
  for (int i = 0; i < 100000; ++i)
    types += "seq<";
  EXPECT_EQ(ErrorCode(ParseModule(types).status()), "E0210");
  std::string bodies = "graph (%c: bool[]) {";
  for (int i = 0; i < 100000; ++i)
    bodies += "%v" + std::to_string(i) + " = If(%c) graph () {";
  EXPECT_EQ(ErrorCode(ParseModule(bodies).status()), "E0210");
}

// Every prefix of a text is an error or a module, never a crash.
TEST(Text, Prefixes) {
  const std::string text =
      R"(module "m" { opset "" 13 nodes { 0: a::B "i" name "j" } graph (%x: u8[n,"2"]{axis=0,s=(1,2),z=(3,4)}:NHWC) {
    %y: seq<map<i64,f32[*]>> = test::Everything(%x, _, %x) {fs = [nan(0x7fc00001), 1.5], t = splat<f16[2]: 0x7c01>, ty = type opt<f32[]>} origin(0) @npu
    return %y as "z" } })";
  ASSERT_TRUE(ParseModule(text).ok()) << ParseModule(text).status();
  for (size_t n = 0; n < text.size(); ++n)
    EXPECT_FALSE(ParseModule(std::string_view(text).substr(0, n)).ok()) << n;
}

} // namespace
} // namespace npuc
