// Damaged files, tensors' data in all their homes, external data: what is read, what is refused, and that nothing
// crashes.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "compiler/onnx/tensor_proto.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/half.h"
#include "test/onnx/model_builder.h"
#include "test/temp_folder.h"

namespace npuc::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Diagnostic ImportBytes(const std::string &bytes) {
  DiagnosticEngine d;
  auto r = ImportModel(MappedFile::FromString(bytes, "m.onnx"), "", {}, d);
  if (r.ok())
    return {};
  return d.All().empty() ? Diagnostic{} : d.All().back();
}

struct Folder {
  TempFolder temp;
  const fs::path &path = temp.path();
  void Write(const fs::path &name, const std::string &bytes) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
};

TEST(DamagedFile, EveryCutIsRefusedOrStillAModel) {
  ModelBuilder b;
  b.In("x", {2, 200}).Out("y").Init("w", Counting({2, 200}));
  b.Node("Add", {"x", "w"}, {"y"});
  const std::string whole = b.m.SerializeAsString();
  ASSERT_EQ(ImportBytes(whole).code, "");
  for (size_t n = 0; n < whole.size(); n += n < 200 ? 1 : 37) {
    const Diagnostic d = ImportBytes(whole.substr(0, n));
    EXPECT_EQ(d.code.substr(0, 2), "E0") << n;
  }
}

TEST(DamagedFile, FlippedBytesNeverCrash) {
  ModelBuilder b;
  b.In("x", {2, 20}).Out("y").Init("w", Counting({2, 20}));
  b.Node("Add", {"x", "w"}, {"y"}, {I("axis", 1)}, "add");
  const std::string whole = b.m.SerializeAsString();
  for (size_t i = 0; i < whole.size(); ++i)
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string bad = whole;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      ImportBytes(bad);
    }
}

TEST(DamagedFile, OtherFormatsAreNamed) {
  EXPECT_EQ(ImportBytes("").code, "E0201");
  EXPECT_THAT(ImportBytes("").message, HasSubstr("empty"));
  EXPECT_THAT(ImportBytes("PK\x03\x04zip").message, HasSubstr("ZIP"));
  EXPECT_THAT(ImportBytes("version https://git-lfs.github.com/spec/v1").message, HasSubstr("LFS"));
  EXPECT_EQ(ImportBytes("hello, I am text").code, "E0201");
  EXPECT_EQ(ImportBytes(std::string(1000, '\0')).code, "E0201");
  EXPECT_EQ(ImportBytes(std::string(1000, '\xff')).code, "E0201");
  ::onnx::ModelProto no_graph;
  no_graph.set_ir_version(8);
  EXPECT_THAT(ImportBytes(no_graph.SerializeAsString()).message, HasSubstr("no graph"));
}

TEST(DamagedFile, DeepNestingIsRefused) {
  ::onnx::GraphProto g;
  g.add_output()->set_name("x");
  for (int i = 0; i < 500; ++i) {
    GraphBuilder outer;
    outer.Node("If", {"c"}, {"x"}, {G("then_branch", g), G("else_branch", {})});
    outer.Out("x");
    g = outer.g;
    if (i == 20) {
      // 20 deep is fine for the reader (the model is wrong for other reasons).
      ModelBuilder b;
      *b.m.mutable_graph() = g;
      EXPECT_NE(b.Fail().code, "E0201");
    }
  }
  ModelBuilder b;
  *b.m.mutable_graph() = g;
  EXPECT_EQ(b.Fail().code, "E0201");
}

TEST(Wire, LongRawDataStaysInTheFile) {
  ModelBuilder b = ModelBuilder();
  b.In("x", {300}).Out("y").Init("w", Tensor::Of<int8_t>(DType::I8, {300}, std::vector<int8_t>(300, 7)));
  b.Node("Cast", {"w"}, {"f"}, {I("to", 1)});
  b.Node("Add", {"x", "f"}, {"y"});
  const MappedFile file = MappedFile::FromString(b.m.SerializeAsString(), "m.onnx");
  auto slim = onnx_import::SlimDown({file.data(), static_cast<size_t>(file.size())});
  ASSERT_TRUE(slim.ok());
  ASSERT_EQ(slim->raw.size(), 1u);
  EXPECT_EQ(slim->raw[0].size, 300u);
  EXPECT_LT(slim->bytes.size(), file.size() - 290);
  // The constant views the file's bytes.
  DiagnosticEngine d;
  auto m = ImportModel(file, "", {}, d);
  ASSERT_TRUE(m.ok());
  bool viewed = false;
  for (Node &n : (*m)->main().nodes())
    if (n.is_constant())
      viewed |= n.result()->constant()->bytes() == slim->raw[0].data;
  EXPECT_TRUE(viewed);
}

// Raw data of Constant nodes and inside bodies are found, too.
TEST(Wire, RawDataInNodesAndBodies) {
  GraphBuilder t, e;
  t.Out("r").Init("inner", Counting({100}));
  t.Node("Identity", {"inner"}, {"r"});
  e.Out("r");
  e.Node("Constant", {}, {"r"}, {T("value", Counting({100}, 5))});
  ModelBuilder b;
  b.In("c", {}, DType::Bool).Out("y");
  b.Node("If", {"c"}, {"y"}, {G("then_branch", t.g), G("else_branch", e.g)});
  auto slim = onnx_import::SlimDown(
      {reinterpret_cast<const uint8_t *>(b.m.SerializeAsString().data()), b.m.SerializeAsString().size()});
  ASSERT_TRUE(slim.ok());
  EXPECT_EQ(slim->raw.size(), 2u);
  const auto yes = Tensor::Of<uint8_t>(DType::Bool, {}, llvm::ArrayRef<uint8_t>{1}),
             no = Tensor::Of<uint8_t>(DType::Bool, {}, llvm::ArrayRef<uint8_t>{0});
  EXPECT_EQ(AsFloats(b.Run({yes})[0])[99], 100);
  EXPECT_EQ(AsFloats(b.Run({no})[0])[99], 104);
}

// A file that carries our own marker field cannot point a tensor at another one's bytes.
TEST(Wire, ForeignMarkersAreDropped) {
  ModelBuilder b;
  b.In("x", {2}).Out("y");
  auto *t = b.g.add_initializer();
  t->set_name("w");
  t->set_data_type(1);
  t->add_dims(2);
  t->set_npuc_raw_index(0);
  b.Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(b.Fail().code, "E0206"); // no data at all
  ::onnx::TensorProto file;
  file.set_data_type(1);
  file.set_npuc_raw_index(7);
  EXPECT_FALSE(ParseValueProto(file.SerializeAsString(), Type()).ok());
}

// ---- tensors

StatusOr<Tensor> Read(const ::onnx::TensorProto &p) {
  onnx_import::TensorSource source;
  return onnx_import::ReadTensor(p, source);
}
::onnx::TensorProto Proto(DType t, std::vector<int64_t> dims) {
  ::onnx::TensorProto p;
  p.set_name("w");
  p.set_data_type(static_cast<int>(t));
  for (int64_t d : dims)
    p.add_dims(d);
  return p;
}

TEST(TensorData, TypedFields) {
  auto f = Proto(DType::F32, {2});
  f.add_float_data(1.5f);
  f.add_float_data(-2);
  EXPECT_THAT(AsFloats(*Read(f)), ElementsAre(1.5f, -2));
  auto h = Proto(DType::F16, {2}); // bit patterns in int32_data
  h.add_int32_data(FloatToHalf(0.5f));
  h.add_int32_data(FloatToHalf(-3));
  EXPECT_THAT(AsFloats(*Read(h)), ElementsAre(0.5f, -3));
  auto i8 = Proto(DType::I8, {2});
  i8.add_int32_data(-5);
  i8.add_int32_data(127);
  EXPECT_EQ(Read(i8)->AsInt(0), -5);
  auto u32 = Proto(DType::U32, {1});
  u32.add_uint64_data(4000000000u);
  EXPECT_EQ(Read(u32)->AsInt(0), 4000000000);
  auto b = Proto(DType::Bool, {2});
  b.add_int32_data(2);
  b.add_int32_data(0);
  EXPECT_EQ(Read(b)->bytes()[0], 1);
  auto i64 = Proto(DType::I64, {});
  i64.add_int64_data(-9);
  EXPECT_EQ(Read(i64)->AsInt(0), -9);
  auto c = Proto(DType::C64, {1});
  c.add_float_data(1);
  c.add_float_data(2);
  EXPECT_EQ(Read(c)->data<float>()[1], 2);
  auto s = Proto(DType::String, {2});
  s.add_string_data("a");
  s.add_string_data("\xff");
  EXPECT_EQ(Read(s)->strings()[1], "\xff");
}

TEST(TensorData, SubByteElementsAreUnpacked) {
  auto i4 = Proto(DType::I4, {3});
  i4.set_raw_data(std::string("\x7f\x08", 2)); // -1, 7, -8 (low bits first)
  EXPECT_EQ(Read(i4)->AsInt(0), -1);
  EXPECT_EQ(Read(i4)->AsInt(1), 7);
  EXPECT_EQ(Read(i4)->AsInt(2), -8);
  auto u4 = Proto(DType::U4, {3});
  u4.add_int32_data(0xf1);
  u4.add_int32_data(0x0a);
  EXPECT_EQ(Read(u4)->AsInt(0), 1);
  EXPECT_EQ(Read(u4)->AsInt(1), 15);
  EXPECT_EQ(Read(u4)->AsInt(2), 10);
  auto i2 = Proto(DType::I2, {5});
  i2.set_raw_data(std::string("\xe4\x02", 2)); // 0 1 -2 -1 | -2
  std::vector<int64_t> v;
  for (int i = 0; i < 5; ++i)
    v.push_back(Read(i2)->AsInt(i));
  EXPECT_THAT(v, ElementsAre(0, 1, -2, -1, -2));
  // And back.
  ::onnx::TensorProto back;
  onnx_import::WriteTensor(*Read(i2), &back);
  EXPECT_EQ(back.raw_data(), std::string("\xe4\x02", 2));
}

TEST(TensorData, SizesAndPlacesAreChecked) {
  auto raw = Proto(DType::F32, {3});
  raw.set_raw_data(std::string(8, '\0'));
  EXPECT_EQ(ErrorCode(Read(raw).status()), "E0206");
  auto field = Proto(DType::F32, {3});
  field.add_float_data(1);
  EXPECT_EQ(ErrorCode(Read(field).status()), "E0206");
  auto wrong = Proto(DType::F32, {1});
  wrong.add_int32_data(1);
  EXPECT_EQ(ErrorCode(Read(wrong).status()), "E0206");
  EXPECT_THAT(std::string(Message(Read(wrong).status())), HasSubstr("int32_data"));
  auto both = Proto(DType::F32, {1});
  both.add_float_data(1);
  both.set_raw_data(std::string(4, '\0'));
  EXPECT_EQ(ErrorCode(Read(both).status()), "E0206");
  EXPECT_EQ(ErrorCode(Read(Proto(DType::F32, {-1})).status()), "E0206");
  EXPECT_EQ(ErrorCode(Read(Proto(DType::F32, {1ll << 40, 1ll << 40})).status()), "E0206"); // the product overflows
  EXPECT_EQ(ErrorCode(Read(Proto(DType::F32, {1ll << 50})).status()), "E0206");            // and this has no data
  EXPECT_EQ(ErrorCode(Read(Proto(static_cast<DType>(99), {1})).status()), "E0403");
  auto empty = Proto(DType::F32, {0, 5});
  ASSERT_TRUE(Read(empty).ok());
  EXPECT_EQ(Read(empty)->num_elements(), 0);
}

TEST(TensorData, SparseInitializers) {
  ModelBuilder b;
  b.In("x", {2, 3}).Out("y");
  auto *s = b.g.add_sparse_initializer();
  *s->mutable_values() = Proto(DType::F32, {2});
  s->mutable_values()->set_name("w");
  s->mutable_values()->add_float_data(5);
  s->mutable_values()->add_float_data(7);
  *s->mutable_indices() = Proto(DType::I64, {2});
  s->mutable_indices()->add_int64_data(1);
  s->mutable_indices()->add_int64_data(5);
  s->add_dims(2);
  s->add_dims(3);
  b.Node("Add", {"x", "w"}, {"y"});
  EXPECT_THAT(AsFloats(b.Run({Floats({2, 3}, {0, 0, 0, 0, 0, 0})})[0]), ElementsAre(0, 5, 0, 0, 0, 7));
  s->mutable_indices()->clear_int64_data();
  s->mutable_indices()->add_int64_data(1);
  s->mutable_indices()->add_int64_data(6);
  EXPECT_EQ(b.Fail().code, "E0206");
  s->set_dims(0, 1ll << 40); // a few bytes of file may not take the machine's memory
  EXPECT_EQ(b.Fail().code, "E0402");
}

// ---- external data

ModelBuilder WithExternal(const std::string &location, const std::string &offset = "", const std::string &length = "") {
  ModelBuilder b;
  b.In("x", {2}).Out("y");
  auto *t = b.g.add_initializer();
  *t = Proto(DType::F32, {2});
  t->set_data_location(::onnx::TensorProto::EXTERNAL);
  auto add = [&](const char *key, const std::string &value) {
    if (value.empty())
      return;
    auto *e = t->add_external_data();
    e->set_key(key);
    e->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
  b.Node("Add", {"x", "w"}, {"y"});
  return b;
}

std::string FloatBytes(std::vector<float> v) {
  return std::string(reinterpret_cast<const char *>(v.data()), v.size() * 4);
}

struct ExternalCase {
  std::string code, message;
  std::vector<float> values;
};
ExternalCase TryExternal(const Folder &folder, const ::onnx::ModelProto &m) {
  folder.Write("model/m.onnx", m.SerializeAsString());
  DiagnosticEngine d;
  auto r = ImportModel((folder.path / "model/m.onnx").string(), {}, d);
  if (!r.ok())
    return {d.All().back().code, d.All().back().message, {}};
  Interpreter interpreter((*r)->main());
  auto out = interpreter.Run(std::vector<Tensor>{Floats({2}, {0, 0})});
  return {"", "", AsFloats(*(*out)[0].tensor())};
}

TEST(ExternalData, IsReadFromTheModelsFolder) {
  Folder f;
  f.Write("model/w.bin", FloatBytes({9, 1, 2, 3}));
  f.Write("model/sub/w.bin", FloatBytes({4, 5}));
  EXPECT_THAT(TryExternal(f, WithExternal("w.bin").m).values, ElementsAre(9, 1));
  EXPECT_THAT(TryExternal(f, WithExternal("w.bin", "4", "8").m).values, ElementsAre(1, 2));
  EXPECT_THAT(TryExternal(f, WithExternal("w.bin", "8").m).values, ElementsAre(2, 3));
  EXPECT_THAT(TryExternal(f, WithExternal("sub/w.bin").m).values, ElementsAre(4, 5));
  EXPECT_THAT(TryExternal(f, WithExternal("./w.bin").m).values, ElementsAre(9, 1));
  fs::create_symlink("w.bin", f.path / "model/link.bin"); // stays inside
  EXPECT_THAT(TryExternal(f, WithExternal("link.bin").m).values, ElementsAre(9, 1));
}

TEST(ExternalData, MissingOrShortFilesAreNamed) {
  Folder f;
  f.Write("model/w.bin", FloatBytes({9, 1, 2, 3}));
  auto missing = TryExternal(f, WithExternal("gone.bin").m);
  EXPECT_EQ(missing.code, "E0105");
  EXPECT_THAT(missing.message, HasSubstr("'gone.bin'"));
  EXPECT_EQ(TryExternal(f, WithExternal("w.bin", "12", "8").m).code, "E0105");
  EXPECT_EQ(TryExternal(f, WithExternal("w.bin", "18446744073709551615").m).code, "E0105");
  EXPECT_EQ(TryExternal(f, WithExternal("w.bin", "-4").m).code, "E0105");
  EXPECT_EQ(TryExternal(f, WithExternal("w.bin", "0", "9223372036854775807").m).code, "E0105");
  EXPECT_EQ(TryExternal(f, WithExternal("w.bin", "0", "4").m).code, "E0206"); // too few for the tensor
  EXPECT_EQ(TryExternal(f, WithExternal("").m).code, "E0105");
}

// N036
TEST(ExternalData, MayNotLeaveTheFolder) {
  Folder f;
  f.Write("secret.bin", FloatBytes({6, 6}));
  f.Write("model/w.bin", FloatBytes({9, 1}));
  fs::create_symlink(f.path / "secret.bin", f.path / "model/link.bin");
  fs::create_directory_symlink(f.path, f.path / "model/up");
  for (const std::string &location :
       {std::string("../secret.bin"), std::string("../../../../../../etc/passwd"), (f.path / "secret.bin").string(),
        std::string("/etc/passwd"), std::string("link.bin"), std::string("up/secret.bin"),
        std::string("x/../../secret.bin")}) {
    auto r = TryExternal(f, WithExternal(location).m);
    EXPECT_EQ(r.code, "E0208") << location;
  }
  // A model that is read from bytes has no folder.
  EXPECT_EQ(WithExternal("w.bin").Fail().code, "E0105");
}

// ---- value files

TEST(ValueProto, RoundTrips) {
  const EvalValue tensor = Counting({2, 3});
  auto back = ParseValueProto(SerializeValueProto(tensor, Type(), "x"), Type());
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->tensor()->SameBits(*tensor.tensor()));
  EvalValue sequence;
  sequence.v = std::make_shared<const EvalSequence>(EvalSequence{Counting({2}), Counting({3})});
  const Type type = Type::Sequence(Type::Tensor(DType::F32, Shape::Unranked()));
  back = ParseValueProto(SerializeValueProto(sequence, type, "s"), type);
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->sequence()->size(), 2u);
  EXPECT_EQ((*back->sequence())[1].tensor()->num_elements(), 3);
  const Type optional = Type::Optional(type);
  back = ParseValueProto(SerializeValueProto(sequence, optional, "o"), optional);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->sequence()->size(), 2u);
  back = ParseValueProto(SerializeValueProto(EvalValue(), optional, "o"), optional);
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(back->has_value());
  EXPECT_EQ(ErrorCode(ParseValueProto("garbage\xff", Type()).status()), "E0103");
}

} // namespace
} // namespace npuc::test
