// model.bin: what is written comes back; whatever is done to the bytes is refused or changes nothing.
#include "backend/container/model_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "backend/container/format.h"
#include "backend/isa/isa.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"
#include "test/temp_folder.h"

namespace npuc::container {
namespace {

using isa::Region;

std::string TempPath(const std::string &name) {
  static const TempFolder folder;
  return folder.At(name);
}
std::string Slurp(const std::string &path) {
  std::ifstream f(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(f), {});
}

const uint8_t kWeights[] = {1, 2, 3, 4, 5};
const uint8_t kTable[100] = {9, 8, 7};

ModelFile Example() {
  ModelFile m;
  m.target_name = "edge-2t";
  m.target_text = "name: edge-2t\n# not parsed here\n";
  m.origins = {"conv", "relu", "loop/then_branch/x"};
  m.inputs.push_back(
      {"x", Type::Tensor(DType::U8, Shape({1, 3, 8, 8}), PerTensorQuant(0.5f, 128), Layout::NHWC), 192, -1});
  Shape open({1});
  open.push_back(Dim::Symbol("n"));
  open.push_back(Dim::Unknown());
  m.inputs.push_back({"y", Type::Tensor(DType::I64, open), 0, 0});
  m.inputs.push_back({"z", Type::Sequence(Type::Optional(Type::Tensor(DType::String, Shape::Unranked()))), 0, 1});
  m.inputs.push_back({"m", Type::Map(DType::I64, Type::Tensor(DType::F32, Shape({}))), 0, 2});
  m.outputs.push_back({"out", Type::Tensor(DType::F32, Shape({1, 4})), 16, -1});
  m.num_slots = 3;
  NpuStep npu;
  isa::Dma d;
  d.src = isa::NhwcView({Region::Io, 0, 0}, DType::U8, 1, 8, 8, 3);
  d.dst = isa::NhwcView({Region::Sram, 0, 0}, DType::U8, 1, 8, 8, 3);
  isa::Command c;
  c.layer = 0;
  c.body = d;
  npu.stream = {c, isa::Command()};
  m.steps.push_back(npu);
  HostStep host;
  host.ir = "graph(%a: f32[1,4]) { \"a string with external<999999, 1> in it\" %w = external<0, 5> external<64,100> }";
  host.inputs.push_back({"a", Type::Tensor(DType::F32, Shape({1, 4})), {Region::Arena, 0, 128}, -1});
  host.inputs.push_back({"z", Type::Sequence(Type::Tensor(DType::F32, Shape::Unranked())), {}, 1});
  host.outputs.push_back({"b", Type::Tensor(DType::F32, Shape({1, 4})), {Region::Io, 4, 0}, -1});
  host.nodes = {{"Add", {0, 2}}, {"Relu", {}}};
  m.steps.push_back(host);
  m.layers = {{0, "conv+relu", "Conv", {0, 1}}, {1, "rest", "", {2}}};
  m.captures.push_back({"mid", Type::Tensor(DType::U8, Shape({1, 3, 8, 8})), d.dst, 0, 0});
  m.arena_bytes = 4096;
  m.sram_bytes = 2097152;
  m.metadata = {{"tool", "npuc 0.1.0"}, {"model", ""}};
  m.const_pieces.push_back({0, kWeights, sizeof kWeights, nullptr});
  m.const_pieces.push_back({64, kTable, sizeof kTable, nullptr});
  m.const_bytes = 192;
  return m;
}

std::string BytesOf(const ModelFile &m) {
  const std::string path = TempPath("bytes.bin");
  EXPECT_TRUE(WriteModelFile(m, path).ok());
  std::string s = Slurp(path);
  std::remove(path.c_str());
  return s;
}
StatusOr<ModelFile> Load(std::string bytes) {
  return ReadModelFile(MappedFile::FromString(std::move(bytes), "model.bin"));
}

void ExpectEqual(const ModelFile &a, const ModelFile &b) {
  EXPECT_EQ(a.target_name, b.target_name);
  EXPECT_EQ(a.target_text, b.target_text);
  EXPECT_EQ(a.origins, b.origins);
  auto io = [](const std::vector<IoTensor> &x, const std::vector<IoTensor> &y) {
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(x[i].name, y[i].name);
      EXPECT_EQ(x[i].type.ToString(), y[i].type.ToString());
      EXPECT_EQ(x[i].bytes, y[i].bytes);
      EXPECT_EQ(x[i].slot, y[i].slot);
    }
  };
  io(a.inputs, b.inputs);
  io(a.outputs, b.outputs);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    ASSERT_EQ(a.steps[i].index(), b.steps[i].index());
    if (const NpuStep *n = std::get_if<NpuStep>(&a.steps[i])) {
      EXPECT_EQ(n->stream, std::get<NpuStep>(b.steps[i]).stream);
      continue;
    }
    const HostStep &x = std::get<HostStep>(a.steps[i]), &y = std::get<HostStep>(b.steps[i]);
    EXPECT_EQ(x.ir, y.ir);
    auto bindings = [](const std::vector<HostBinding> &p, const std::vector<HostBinding> &q) {
      ASSERT_EQ(p.size(), q.size());
      for (size_t k = 0; k < p.size(); ++k) {
        EXPECT_EQ(p[k].name, q[k].name);
        EXPECT_EQ(p[k].type.ToString(), q[k].type.ToString());
        EXPECT_EQ(p[k].address, q[k].address);
        EXPECT_EQ(p[k].slot, q[k].slot);
      }
    };
    bindings(x.inputs, y.inputs);
    bindings(x.outputs, y.outputs);
    ASSERT_EQ(x.nodes.size(), y.nodes.size());
    for (size_t k = 0; k < x.nodes.size(); ++k) {
      EXPECT_EQ(x.nodes[k].op, y.nodes[k].op);
      EXPECT_EQ(x.nodes[k].origins, y.nodes[k].origins);
    }
  }
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].id, b.layers[i].id);
    EXPECT_EQ(a.layers[i].name, b.layers[i].name);
    EXPECT_EQ(a.layers[i].op, b.layers[i].op);
    EXPECT_EQ(a.layers[i].origins, b.layers[i].origins);
  }
  ASSERT_EQ(a.captures.size(), b.captures.size());
  for (size_t i = 0; i < a.captures.size(); ++i) {
    EXPECT_EQ(a.captures[i].name, b.captures[i].name);
    EXPECT_EQ(a.captures[i].view, b.captures[i].view);
    EXPECT_EQ(a.captures[i].step, b.captures[i].step);
    EXPECT_EQ(a.captures[i].command, b.captures[i].command);
  }
  EXPECT_EQ(a.arena_bytes, b.arena_bytes);
  EXPECT_EQ(a.sram_bytes, b.sram_bytes);
  EXPECT_EQ(a.num_slots, b.num_slots);
  EXPECT_EQ(a.metadata, b.metadata);
  EXPECT_EQ(a.const_bytes, b.const_bytes);
}

TEST(ModelFile, ComesBackEqual) {
  const ModelFile m = Example();
  const std::string path = TempPath("model.bin");
  ASSERT_TRUE(WriteModelFile(m, path).ok());
  const auto back = ReadModelFile(path);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectEqual(m, *back);
  ASSERT_EQ(back->const_pieces.size(), 1u);
  std::vector<uint8_t> constants(192);
  std::memcpy(constants.data(), kWeights, sizeof kWeights);
  std::memcpy(constants.data() + 64, kTable, sizeof kTable);
  EXPECT_EQ(std::vector<uint8_t>(back->const_pieces[0].data, back->const_pieces[0].data + 192), constants);
  std::remove(path.c_str());
}

TEST(ModelFile, TheSameModelGivesTheSameBytes) {
  EXPECT_EQ(BytesOf(Example()), BytesOf(Example()));
}

TEST(ModelFile, AnEmptyModel) {
  ModelFile m;
  const auto back = Load(BytesOf(m));
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectEqual(m, *back);
}

TEST(ModelFile, EveryChangedByteIsRefusedOrChangesNothing) {
  const ModelFile m = Example();
  const std::string good = BytesOf(m);
  int harmless = 0;
  for (size_t i = 0; i < good.size(); ++i)
    for (int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[i] ^= static_cast<char>(1 << bit);
      const auto back = Load(bad);
      if (back.ok()) {
        ExpectEqual(m, *back);
        ++harmless;
      } else {
        const std::string code = ErrorCode(back.status());
        EXPECT_TRUE(code == "E0601" || code == "E0602" || code == "E0603") << code;
      }
    }
  EXPECT_LT(harmless, 64 * 6 * 3); // the gaps between sections alone
}

TEST(ModelFile, EveryCutIsRefused) {
  const std::string good = BytesOf(Example());
  for (size_t n = 0; n < good.size(); ++n) {
    const auto back = Load(good.substr(0, n));
    ASSERT_FALSE(back.ok()) << n;
    EXPECT_EQ(ErrorCode(back.status()), n < kMagic.size() ? "E0601" : "E0603");
  }
  EXPECT_EQ(ErrorCode(Load(good + "x").status()), "E0603");
}

// Takes a file apart and puts it together again with right checksums, so that what lies behind them is reached.
struct Parts {
  Header header;
  std::vector<Section> table;
  std::vector<std::string> bytes;

  explicit Parts(const std::string &file) {
    std::memcpy(&header, file.data(), sizeof header);
    table.resize(header.num_sections);
    std::memcpy(table.data(), file.data() + sizeof header, table.size() * sizeof(Section));
    for (const Section &s : table)
      bytes.push_back(file.substr(s.offset, s.bytes));
  }
  std::string &of(SectionKind k) { return bytes[static_cast<size_t>(k) - 1]; }
  std::string Join(bool place = true) {
    std::string out(sizeof header + table.size() * sizeof(Section), '\0');
    for (size_t i = 0; i < table.size(); ++i) {
      table[i].checksum = Xxh3(bytes[i]);
      if (!place)
        continue;
      out.resize((out.size() + 63) / 64 * 64);
      table[i].offset = out.size();
      table[i].bytes = bytes[i].size();
      out += bytes[i];
    }
    header.num_sections = static_cast<uint32_t>(table.size());
    header.file_bytes = out.size();
    header.checksum = 0;
    const size_t front = sizeof header + table.size() * sizeof(Section);
    std::memcpy(out.data(), &header, sizeof header);
    std::memcpy(out.data() + sizeof header, table.data(), table.size() * sizeof(Section));
    header.checksum = Xxh3(out.data(), front);
    std::memcpy(out.data(), &header, sizeof header);
    return out;
  }
};

std::string Refusal(const std::string &bytes, std::string_view code) {
  const auto m = Load(bytes);
  if (m.ok())
    return "accepted";
  EXPECT_EQ(ErrorCode(m.status()), code);
  EXPECT_EQ(FromStatus(m.status()).file, "model.bin");
  return std::string(Message(m.status()));
}
testing::AssertionResult Has(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' lacks '" << part << "'";
}

TEST(ModelFile, PartsJoinToTheSameFile) {
  const std::string good = BytesOf(Example());
  EXPECT_EQ(Parts(good).Join(), good);
}

TEST(ModelFile, VersionsAreRefusedSayingWhatIsNeeded) {
  const std::string good = BytesOf(Example());
  EXPECT_TRUE(Has(Refusal("not a model at all", "E0601"), "not an NPU binary"));
  Parts p(good);
  p.header.major = 3;
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0602"), "container version 3.0, this loader reads 1.x"));
  p = Parts(good);
  p.header.minor = 7; // a newer minor version of a known major one is read
  EXPECT_TRUE(Load(p.Join()).ok());
  p.header.isa_version = 2;
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0602"), "instruction set version 2, this loader reads version 1"));
}

TEST(ModelFile, UnknownSections) {
  const std::string good = BytesOf(Example());
  Parts p(good);
  p.table.push_back({77, 0, 0, 0, 0});
  p.bytes.push_back("something new");
  const auto m = Load(p.Join());
  ASSERT_TRUE(m.ok()) << m.status();
  ExpectEqual(Example(), *m);
  p.table.back().flags = kSectionRequired;
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0602"), "needs section kind 77"));
  p = Parts(good);
  p.table.push_back({5, 0, 0, 0, 0});
  p.bytes.push_back("again");
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0603"), "'const' is there twice"));
  p = Parts(good);
  p.table.erase(p.table.begin() + 2);
  p.bytes.erase(p.bytes.begin() + 2);
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0603"), "'streams' is missing"));
}

TEST(ModelFile, SectionTable) {
  const std::string good = BytesOf(Example());
  auto with = [&](auto change) {
    Parts p(good);
    change(p.table);
    std::string out = good; // the same places, another table
    p.header.checksum = 0;
    std::memcpy(out.data(), &p.header, sizeof p.header);
    std::memcpy(out.data() + sizeof p.header, p.table.data(), p.table.size() * sizeof(Section));
    p.header.checksum = Xxh3(out.data(), sizeof p.header + p.table.size() * sizeof(Section));
    std::memcpy(out.data(), &p.header, sizeof p.header);
    return Refusal(out, "E0603");
  };
  EXPECT_TRUE(Has(with([](auto &t) { t[4].offset += 8; }), "no multiple of 64"));
  EXPECT_TRUE(Has(with([](auto &t) { t[4].bytes += 1; }), "outside the file"));
  EXPECT_TRUE(Has(with([](auto &t) { t[4].offset = uint64_t{1} << 63; }), "outside the file"));
  EXPECT_TRUE(Has(with([](auto &t) { t[4].bytes = ~uint64_t{0}; }), "outside the file"));
  EXPECT_TRUE(Has(with([](auto &t) { t[3].offset = t[2].offset; }), "overlaps"));
  EXPECT_TRUE(Has(with([](auto &t) { t[0].offset = 0; }), "overlaps"));
  EXPECT_TRUE(Has(with([](auto &t) { t[3].bytes -= 1; }), "section 'ir' has checksum"));
  EXPECT_TRUE(Has(with([](auto &t) { t[3].flags |= 2; }), "unknown flags 0x2"));
}

TEST(ModelFile, WhatLiesBehindTheChecksums) {
  const std::string good = BytesOf(Example());
  Parts p(good);
  p.of(SectionKind::Target) += "x";
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0603"), "another SHA-256"));
  p = Parts(good);
  p.of(SectionKind::Streams)[0] = 55; // an opcode
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0604"), "step 0: command 0 (word 0) has the unknown opcode 55"));
  p = Parts(good);
  p.of(SectionKind::Const) += std::string(64, '\0');
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0603"), "const section's size"));
  p = Parts(good);
  std::string &ir = p.of(SectionKind::Ir);
  ir.replace(ir.find("external<64,100>"), 16, "external<93,100>");
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0603"), "bytes 93 + 100 of a const section of 192"));
  p = Parts(good);
  p.of(SectionKind::Ir).resize(10);
  EXPECT_TRUE(Has(Refusal(p.Join(), "E0603"), "step 1 names bytes"));
  ModelFile slots = Example();
  slots.num_slots = std::numeric_limits<int32_t>::max(); // a session makes as many values
  EXPECT_TRUE(Has(Refusal(BytesOf(slots), "E0603"), "more slots than values"));
}

// Metadata with any byte changed, checksums right: refused or read, never a crash (run under the sanitizers too).
TEST(ModelFile, DamagedMetadataNeverCrashes) {
  const std::string good = BytesOf(Example());
  const Parts p(good);
  int refused = 0;
  for (size_t i = 0; i < p.bytes[1].size(); ++i)
    for (int value : {0, 1, 0x7f, 0xff}) {
      Parts q = p;
      q.bytes[1][i] = static_cast<char>(value);
      const auto m = Load(q.Join());
      if (!m.ok()) {
        ++refused;
        const std::string code = ErrorCode(m.status());
        EXPECT_TRUE(code == "E0603" || code == "E0604") << code;
      }
    }
  EXPECT_GT(refused, 100);
}

TEST(ModelFile, FilesThatAreNotThere) {
  EXPECT_EQ(ErrorCode(ReadModelFile(TempPath("none")).status()), "E0101");
}

} // namespace
} // namespace npuc::container
