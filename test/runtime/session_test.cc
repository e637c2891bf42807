// Models from load to results: in-place buffers, host steps, free shapes, checked mode, every kind of refusal, the C
// interface.
#include "test/runtime/model_fixture.h"

#include <unistd.h>

#include <fstream>

#include "compiler/support/diagnostic.h"
#include "compiler/support/half.h"
#include "runtime_stub/npu_runtime.h"
#include "runtime_stub/profile.h"
#include "runtime_stub/session.h"
#include "test/temp_folder.h"

namespace npuc::runtime {
namespace {

std::shared_ptr<const Model> MustLoad(container::ModelFile file) {
  auto m = Model::FromFile(std::move(file), "test.bin");
  EXPECT_TRUE(m.ok()) << Message(m.status());
  return m.ok() ? *m : nullptr;
}
std::vector<uint16_t> Halves(std::initializer_list<float> v) {
  std::vector<uint16_t> h(16);
  size_t i = 0;
  for (float f : v)
    h[i++] = FloatToHalf(f);
  return h;
}

TEST(Session, RunsInTheCallersBuffers) {
  auto model = MustLoad(NpuModel());
  ASSERT_TRUE(model);
  for (const SessionOptions &o : {SessionOptions{.threads = 1},
                                  {.threads = 2},
                                  {.threads = 1, .checked = true},
                                  {.threads = 1, .reference = true},
                                  {.threads = 1, .eager = true}}) {
    Session s(model, o);
    auto x = Halves({-1, 2, 0.5f}), y = Halves({});
    ASSERT_TRUE(s.BindInput(0, x.data(), 32).ok());
    ASSERT_TRUE(s.BindOutput(0, y.data(), 32).ok());
    ASSERT_TRUE(s.Run().ok());
    EXPECT_EQ(HalfToFloat(y[0]), 1);
    EXPECT_EQ(HalfToFloat(y[1]), 3);
    EXPECT_EQ(HalfToFloat(y[2]), 1.5f);
    x[0] = FloatToHalf(7); // the same buffers again, other contents
    ASSERT_TRUE(s.Run().ok());
    EXPECT_EQ(HalfToFloat(y[0]), 8);
    EXPECT_EQ(s.Output(0).tensor()->bytes(), reinterpret_cast<const uint8_t *>(y.data()));
  }
}

TEST(Session, HostStepsReadTheArenaAndMappedConstants) {
  auto model = MustLoad(NpuThenHostModel());
  ASSERT_TRUE(model);
  Session s(model, {.threads = 1, .checked = true});
  auto x = Halves({-1, 2});
  ASSERT_TRUE(s.BindInput(0, x.data(), 32).ok());
  ASSERT_TRUE(s.Run().ok());
  const EvalValue out = s.Output(0);
  ASSERT_EQ(out.tensor()->dims(), llvm::ArrayRef<int64_t>({48}));
  EXPECT_EQ(out.tensor()->AsDouble(0), 1);
  EXPECT_EQ(out.tensor()->AsDouble(1), 3);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(out.tensor()->data<uint16_t>()[16 + i], 0x3c00 + i);
  ASSERT_EQ(s.step_seconds().size(), 2u);
  EXPECT_GT(s.step_seconds()[1], 0);
}

TEST(Session, FreeShapesArriveAndLeaveAsValues) {
  auto model = MustLoad(FreeShapeModel());
  ASSERT_TRUE(model);
  Session s(model, {.threads = 1});
  for (const int64_t n : {3, 5, 0}) {
    Tensor x = Tensor::Allocate(DType::F32, {n});
    for (int64_t i = 0; i < n; ++i)
      x.mutable_data<float>()[i] = static_cast<float>(i);
    ASSERT_TRUE(s.SetInput(0, x).ok());
    ASSERT_TRUE(s.Run().ok());
    const EvalValue y = s.Output(0);
    ASSERT_EQ(y.tensor()->num_elements(), n);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_EQ(y.tensor()->AsDouble(i), 2.0 * static_cast<double>(i));
  }
}

TEST(Session, RefusesInputsThatDoNotFit) {
  Session s(MustLoad(NpuModel()), {.threads = 1});
  EXPECT_EQ(ErrorCode(s.Run()), "E0701");
  uint8_t small[8];
  EXPECT_EQ(ErrorCode(s.BindInput(0, small, 8)), "E0702");
  EXPECT_EQ(ErrorCode(s.SetInput(0, Tensor::Allocate(DType::F32, {16}))), "E0702");
  const Status shape = s.SetInput(0, Tensor::Allocate(DType::F16, {4, 4}));
  EXPECT_EQ(ErrorCode(shape), "E0702");
  EXPECT_NE(Message(shape).find("'x' is f16[16], given was f16[4,4]"), std::string_view::npos) << Message(shape);
  EXPECT_TRUE(s.SetInput(0, Tensor::Allocate(DType::F16, {16})).ok());
  Session free(MustLoad(FreeShapeModel()), {.threads = 1});
  EXPECT_EQ(ErrorCode(free.SetInput(0, Tensor::Allocate(DType::F32, {2, 2}))), "E0702");
  EXPECT_EQ(ErrorCode(free.BindInput(0, small, 8)), "E0702");
}

// The second half of what ELEM reads was never loaded: legal to the verifier, wrong at run time.
TEST(Session, CheckedModeFindsUninitialisedReads) {
  container::ModelFile m = NpuModel();
  auto &stream = std::get<container::NpuStep>(m.steps[0]).stream;
  isa::Dma &load = std::get<isa::Dma>(stream[0].body);
  load.src.c = load.dst.c = 8;
  auto model = MustLoad(std::move(m));
  ASSERT_TRUE(model);
  auto x = Halves({1});
  for (const bool checked : {false, true}) {
    Session s(model, {.threads = 1, .checked = checked});
    ASSERT_TRUE(s.BindInput(0, x.data(), 32).ok());
    const Status status = s.Run();
    EXPECT_EQ(ErrorCode(status), checked ? "E0703" : "") << Message(status);
    if (checked) {
      EXPECT_NE(Message(status).find("sram+0x10"), std::string_view::npos) << Message(status);
      EXPECT_EQ(FromStatus(status).node, "relu");
    }
  }
}

TEST(Session, CheckedModeWantsWholeOutputs) {
  container::ModelFile m = NpuModel();
  auto &stream = std::get<container::NpuStep>(m.steps[0]).stream;
  isa::Dma &store = std::get<isa::Dma>(stream[3].body);
  store.src.c = store.dst.c = 8;
  Session s(MustLoad(std::move(m)), {.threads = 1, .checked = true});
  auto x = Halves({1});
  ASSERT_TRUE(s.BindInput(0, x.data(), 32).ok());
  EXPECT_EQ(ErrorCode(s.Run()), "E0703");
}

TEST(Model, RefusesDeadlocksRacesAndBounds) {
  container::ModelFile deadlock = NpuModel();
  std::get<container::NpuStep>(deadlock.steps[0]).stream[0].wait = {0, 1, 0, 0};
  EXPECT_EQ(ErrorCode(Model::FromFile(std::move(deadlock), "t").status()), "E0604");
  container::ModelFile race = NpuModel();
  std::get<container::NpuStep>(race.steps[0]).stream[1].wait = {};
  EXPECT_EQ(ErrorCode(Model::FromFile(std::move(race), "t").status()), "E0604");
  container::ModelFile bounds = NpuModel();
  std::get<isa::Elem>(std::get<container::NpuStep>(bounds.steps[0]).stream[2].body).out.address.offset = 4096 - 16;
  DiagnosticEngine all;
  EXPECT_TRUE(IsAlreadyReported(Model::FromFile(std::move(bounds), "t", &all).status()));
  ASSERT_GE(all.ErrorCount(), 1u);
  EXPECT_EQ(all.All()[0].code, "E0604");
}

TEST(Model, RefusesDamagedHostSteps) {
  container::ModelFile m = NpuThenHostModel();
  std::get<container::HostStep>(m.steps[1]).ir += "}";
  EXPECT_EQ(ErrorCode(Model::FromFile(std::move(m), "t").status()), "E0603");
  container::ModelFile outside = NpuThenHostModel();
  outside.const_bytes = 64;
  outside.const_pieces.clear();
  EXPECT_EQ(ErrorCode(Model::FromFile(std::move(outside), "t").status()), "E0603");
}

TEST(Session, SaysWhenThereIsNoMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer stops at an allocation that cannot be";
#endif
  container::ModelFile big = NpuModel();
  big.arena_bytes = int64_t{1} << 60;
  auto model = MustLoad(std::move(big));
  ASSERT_TRUE(model);
  Session s(model, {.threads = 1});
  auto x = Halves({1});
  ASSERT_TRUE(s.BindInput(0, x.data(), 32).ok());
  EXPECT_EQ(ErrorCode(s.Run()), "E0902");
}

TEST(Replay, FollowsWaitsInTwoOrders) {
  const isa::Stream s = ReluPlusOne({isa::Region::Io, 0, 0}, {isa::Region::Io, 1, 0});
  EXPECT_EQ(*ReplayOrder(s), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(*ReplayOrder(s, true), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  isa::Stream two = s;
  two.insert(two.begin() + 3, two[0]); // a second load that waits for nothing
  EXPECT_EQ(*ReplayOrder(two), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(*ReplayOrder(two, true), (std::vector<uint32_t>{0, 3, 1, 2, 4, 5}));
}

TEST(Profile, LayersSumToTheTotal) {
  auto model = MustLoad(NpuModel());
  const Profile p = ModelledProfile(*model);
  EXPECT_GT(p.cycles, 250); // the latencies of a load and a store
  EXPECT_EQ(p.layer_cycles[0], p.cycles);
  EXPECT_EQ(p.ddr_read_bytes, 64);
  EXPECT_EQ(p.ddr_write_bytes, 64);
  EXPECT_NE(ProfileJson(*model, {}).find("\"npuc-profile/1\""), std::string::npos);
  EXPECT_NE(TraceJson(*model, {}).find("\"MXU\""), std::string::npos);
}

std::string FileBytes(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CApi, LoadsRunsAndExplains) {
  const TempFolder folder;
  const std::string path = folder.At("capi.bin");
  ASSERT_TRUE(container::WriteModelFile(NpuThenHostModel(), path).ok());
  const std::string bytes = FileBytes(path);
  npu_model *from_file = nullptr;
  ASSERT_EQ(npu_model_load(path.c_str(), &from_file), NPU_OK) << npu_last_error();
  npu_model *model = nullptr;
  ASSERT_EQ(npu_model_load_memory(bytes.data(), bytes.size(), &model), NPU_OK) << npu_last_error();
  npu_model_free(from_file);
  unlink(path.c_str());

  npu_tensor_info info;
  ASSERT_EQ(npu_model_input_info(model, 0, &info), NPU_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_STREQ(info.type, "f16[16]");
  EXPECT_EQ(info.dtype, NPU_FLOAT16);
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.dims[0], 16);
  EXPECT_EQ(info.bytes, 32u);
  EXPECT_EQ(npu_model_input_info(model, 1, &info), NPU_INVALID_ARGUMENT);
  EXPECT_EQ(npu_model_find_output(model, "z"), 0);
  EXPECT_EQ(npu_model_find_output(model, "x"), -1);

  npu_session *session = nullptr;
  ASSERT_EQ(npu_session_create(model, nullptr, &session), NPU_OK);
  npu_model_free(model); // the session keeps it
  EXPECT_EQ(npu_session_run(session), 701);
  EXPECT_NE(std::string(npu_last_error()).find("input 'x'"), std::string::npos) << npu_last_error();
  auto x = Halves({-1, 2});
  EXPECT_EQ(npu_session_bind_input(session, 0, x.data(), 31), 702);
  ASSERT_EQ(npu_session_bind_input(session, 0, x.data(), 32), NPU_OK);
  uint16_t z[48] = {};
  ASSERT_EQ(npu_session_bind_output(session, 0, z, sizeof z), NPU_OK);
  ASSERT_EQ(npu_session_run(session), NPU_OK) << npu_last_error();
  EXPECT_EQ(HalfToFloat(z[1]), 3);
  npu_tensor t;
  ASSERT_EQ(npu_session_output(session, 0, 0, &t), NPU_OK);
  EXPECT_EQ(t.data, z);
  EXPECT_EQ(t.dims[0], 48);
  EXPECT_EQ(npu_session_output_length(session, 0), 1u);
  const int64_t dims[] = {16};
  EXPECT_EQ(npu_session_set_input(session, 0, NPU_FLOAT16, 1, dims, x.data()), NPU_OK);
  const float floats[16] = {};
  EXPECT_EQ(npu_session_set_input(session, 0, NPU_FLOAT32, 1, dims, floats), 702);
  npu_session_free(session);
}

TEST(CApi, RefusesWhatIsNoBinary) {
  npu_model *model = nullptr;
  EXPECT_EQ(npu_model_load("/nonexistent/model.bin", &model), 101);
  EXPECT_EQ(
      npu_model_load_memory("not a model at all, but long enough to hold a header of 72 bytes ........", 73, &model),
      601)
      << npu_last_error();
  EXPECT_EQ(model, nullptr);
}

} // namespace
} // namespace npuc::runtime
