// Advice is followed with the tools a user has, and the figures hold; npu-run's profile and trace say what the report
// says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "backend/report/json.h"
#include "compiler/support/json.h"
#include "compiler/support/npy.h"
#include "compiler/target/target.h"
#include "test/e2e/run_tool.h"
#include "test/onnx/model_builder.h"

namespace npuc::e2e {
namespace {

using report::Advice;
using report::Report;
using namespace test;

fs::path SharedModel(const std::string &name) {
  if (const char *shared = std::getenv("NPUC_SHARED"))
    return fs::path(shared) / "models" / name;
  for (fs::path p = fs::path(NPUC_SOURCE_DIR); p.has_parent_path() && p != p.parent_path(); p = p.parent_path())
    if (fs::exists(p / "../shared/models" / name))
      return p / "../shared/models" / name;
  return {};
}

class Advised : public testing::Test {
protected:
  void SetUp() override {
    for (const char *tool : {"npuc", "npu-run"})
      if (!HaveTool(tool))
        GTEST_SKIP() << tool << " is not built";
    dir_ = FreshFolder();
  }
  Report Compile(std::vector<std::string> args) {
    for (const char *a : {"-o", "m.bin", "-q"})
      args.push_back(a);
    const Outcome o = RunTool("npuc", args, dir_);
    EXPECT_EQ(o.code, 0) << o.err;
    auto r = report::ReadReport((dir_ / "m.report.json").string());
    EXPECT_TRUE(r.ok());
    return r.ok() ? *r : Report{};
  }
  // The first change of that kind, among those that pay and those that don't.
  static const Advice *Find(const Report &r, const std::string &kind) {
    for (const auto *rows : {&r.advice, &r.tried})
      for (const Advice &a : *rows)
        if (a.kind == kind)
          return &a;
    return nullptr;
  }
  // The change took effect as predicted, within 5 %.
  static void ExpectAsPredicted(const Report &before, const Report &after, const Advice &a) {
    EXPECT_NEAR(double(after.performance.cycles), double(a.predicted_cycles), 0.05 * double(a.predicted_cycles));
    const double cycles_per_ms = before.target.clock_mhz * 1000;
    const double gain =
        (before.performance.latency_total_estimate_ms - after.performance.latency_total_estimate_ms) * cycles_per_ms;
    EXPECT_NEAR(gain, double(a.predicted_gain_cycles), 0.05 * std::abs(double(a.predicted_gain_cycles)) + 1);
  }
  std::string Write(const std::string &name, const std::string &bytes) {
    WriteAll(dir_ / name, bytes);
    return name;
  }
  fs::path dir_;
};

std::vector<std::string> Words(const std::string &command) {
  std::istringstream in(command);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST_F(Advised, SramThatFits) {
  const fs::path model = SharedModel("mlsd-320-tiny.onnx");
  if (model.empty())
    GTEST_SKIP() << "the shared models are not there";
  const Report before = Compile({model.string()});
  const Advice *a = Find(before, "sram");
  ASSERT_TRUE(a);
  EXPECT_GT(a->predicted_gain_cycles, 0);
  ASSERT_FALSE(before.memory.spilled.empty());
  EXPECT_NE(a->message.find(before.memory.spilled[0].name), std::string::npos) << a->message;
  // "sram: { bytes: N } in the target's description"
  const size_t at = a->apply.find("bytes: ");
  ASSERT_NE(at, std::string::npos) << a->apply;
  auto target = Target::FromPreset(before.target.name);
  ASSERT_TRUE(target.ok());
  target->sram.bytes = std::stoll(a->apply.substr(at + 7));
  EXPECT_GT(target->sram.bytes, before.memory.sram_bytes);
  Write("larger.yaml", target->ToCanonicalYaml());
  const Report after = Compile({model.string(), "--target", "larger.yaml"});
  ExpectAsPredicted(before, after, *a);
  for (const auto &t : after.memory.spilled)
    EXPECT_NE(t.name, before.memory.spilled[0].name) << "it still goes through DDR";
}

TEST_F(Advised, PaddedChannels) {
  const fs::path path = SharedModel("squeezenet-fp16.onnx");
  if (path.empty())
    GTEST_SKIP() << "the shared models are not there";
  const Report before = Compile({path.string()});
  const Advice *a = Find(before, "pad-channels");
  ASSERT_TRUE(a);
  EXPECT_NE(a->message.find("'data_0' 4 channels instead of 3"), std::string::npos) << a->message;
  // Zeros in the model file: its input and the one filter that reads it.
  ::onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(ReadAll(path)));
  for (auto &input : *m.mutable_graph()->mutable_input()) // old models list their weights there, too
    if (input.name() == "data_0" || input.name() == "conv1_w_0")
      input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_value(4);
  m.mutable_graph()->clear_value_info();
  int padded = 0;
  for (auto &t : *m.mutable_graph()->mutable_initializer())
    if (t.dims_size() == 4 && t.dims(1) == 3) {
      const size_t row = t.raw_data().size() / size_t(t.dims(0)), channel = row / 3;
      std::string wide;
      for (int64_t i = 0; i < t.dims(0); ++i)
        wide += t.raw_data().substr(size_t(i) * row, row) + std::string(channel, '\0');
      t.set_raw_data(wide);
      t.set_dims(1, 4);
      ++padded;
    }
  ASSERT_EQ(padded, 1);
  const Report after = Compile({Write("padded.onnx", m.SerializeAsString())});
  EXPECT_EQ(after.inputs[0].shape[1].value, 4);
  ExpectAsPredicted(before, after, *a);
}

TEST_F(Advised, Quantisation) {
  const fs::path path = SharedModel("kws-micro-fp32.onnx");
  if (path.empty())
    GTEST_SKIP() << "the shared models are not there";
  const Report before = Compile({path.string()});
  const Advice *a = Find(before, "int8");
  ASSERT_TRUE(a);
  EXPECT_GT(a->predicted_gain_cycles, 0);
  EXPECT_EQ(a->apply, "npuc kws-micro-fp32.onnx --calib SAMPLES");
  // Ranges of real samples cost what any ranges cost.
  ASSERT_EQ(before.inputs.size(), 1u);
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (const auto &e : before.inputs[0].shape) {
    dims.push_back(e.value);
    count *= e.value;
  }
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i % 23) / 23 - 0.5f;
  ASSERT_TRUE(WriteNpy((dir_ / "x.npy").string(), "<f4", dims,
                       {reinterpret_cast<const uint8_t *>(values.data()), values.size() * 4})
                  .ok());
  const Report after = Compile({path.string(), "--calib", "x.npy"});
  EXPECT_GT(after.quantization.nodes_int8, 0);
  ExpectAsPredicted(before, after, *a);
}

// DFL softmax, anchors, Concat, NonMaxSuppression, as YOLOv8 exports them; two scales.
std::string DetectionHead() {
  constexpr int64_t kAnchors = 40 * 40 + 20 * 20, kClasses = 8, kBins = 16;
  ModelBuilder b;
  b.In("p3", {1, 16, 40, 40}).In("p4", {1, 32, 20, 20});
  auto ramp = [](llvm::ArrayRef<int64_t> dims) {
    Tensor t = Tensor::Allocate(DType::F32, dims);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.mutable_data<float>()[i] = float(i % 13 - 6) / 32;
    return t;
  };
  b.Init("flat", Int64s({3}, {1, 4 * kBins + kClasses, -1}));
  for (auto [level, channels] : {std::pair("p3", 16), {"p4", 32}}) {
    const std::string p = level;
    b.Init(p + ".wb", ramp({4 * kBins, channels, 1, 1})).Init(p + ".wc", ramp({kClasses, channels, 3, 3}));
    b.Node("Conv", {p, p + ".wb"}, {p + ".box"}, {}, p + "/box");
    b.Node("Conv", {p, p + ".wc"}, {p + ".cls"}, {Is("pads", {1, 1, 1, 1})}, p + "/cls");
    b.Node("Concat", {p + ".box", p + ".cls"}, {p + ".both"}, {I("axis", 1)}, p + "/cat");
    b.Node("Reshape", {p + ".both", "flat"}, {p + ".flat"}, {}, p + "/flat");
  }
  b.Node("Concat", {"p3.flat", "p4.flat"}, {"all"}, {I("axis", 2)}, "cat");
  b.Init("parts", Int64s({2}, {4 * kBins, kClasses}));
  b.Node("Split", {"all", "parts"}, {"dist", "logits"}, {I("axis", 1)}, "split");
  b.Init("dfl.shape", Int64s({4}, {1, 4, kBins, kAnchors})).Init("box.shape", Int64s({3}, {1, 4, kAnchors}));
  b.Node("Reshape", {"dist", "dfl.shape"}, {"dfl.r"}, {}, "dfl/reshape");
  b.Node("Transpose", {"dfl.r"}, {"dfl.t"}, {Is("perm", {0, 2, 1, 3})}, "dfl/transpose");
  b.Node("Softmax", {"dfl.t"}, {"dfl.s"}, {I("axis", 1)}, "dfl/softmax");
  b.Init("dfl.w", Counting({1, kBins, 1, 1}, 0));
  b.Node("Conv", {"dfl.s", "dfl.w"}, {"dfl.c"}, {}, "dfl/conv");
  b.Node("Reshape", {"dfl.c", "box.shape"}, {"ltrb"}, {}, "dfl/box");
  b.Init("i0", Int64s({1}, {0}))
      .Init("i2", Int64s({1}, {2}))
      .Init("i4", Int64s({1}, {4}))
      .Init("ax1", Int64s({1}, {1}));
  b.Node("Slice", {"ltrb", "i0", "i2", "ax1"}, {"lt"}, {}, "lt");
  b.Node("Slice", {"ltrb", "i2", "i4", "ax1"}, {"rb"}, {}, "rb");
  b.Init("anchors", Counting({1, 2, kAnchors}, 0)).Init("stride", ramp({1, 1, kAnchors}));
  b.Node("Sub", {"anchors", "lt"}, {"x1y1"}, {}, "x1y1");
  b.Node("Add", {"anchors", "rb"}, {"x2y2"}, {}, "x2y2");
  b.Node("Concat", {"x1y1", "x2y2"}, {"corners"}, {I("axis", 1)}, "corners");
  b.Node("Mul", {"corners", "stride"}, {"scaled"}, {}, "scale");
  b.Node("Transpose", {"scaled"}, {"boxes"}, {Is("perm", {0, 2, 1})}, "boxes");
  b.Node("Sigmoid", {"logits"}, {"scores"}, {}, "scores");
  b.Init("most", Int64s({1}, {50})).Init("iou", Floats({1}, {0.5f})).Init("least", Floats({1}, {0.25f}));
  b.Node("NonMaxSuppression", {"boxes", "scores", "most", "iou", "least"}, {"selected"}, {}, "nms");
  b.Init("columns", Int64s({2}, {0, 2}));
  b.Node("Gather", {"selected", "columns"}, {"where"}, {I("axis", 1)}, "where");
  b.Node("GatherND", {"boxes", "where"}, {"picked"}, {}, "picked");
  b.Out("selected").Out("picked");
  return b.m.SerializeAsString();
}

TEST_F(Advised, ADetectionHeadIsCutBeforeNms) {
  const std::string model = Write("head.onnx", DetectionHead());
  const Report before = Compile({model});
  ASSERT_EQ(before.coverage.nodes_host, 3);
  const Advice *a = Find(before, "output-cut");
  ASSERT_TRUE(a);
  ASSERT_FALSE(before.advice.empty());
  EXPECT_EQ(before.advice[0].kind, "output-cut");
  EXPECT_NE(a->message.find("end the model at 'boxes', 'scores'"), std::string::npos) << a->message;
  EXPECT_NE(a->message.find("NonMaxSuppression"), std::string::npos) << a->message;
  EXPECT_EQ(a->node, "nms");
  EXPECT_EQ(a->apply, "npuc head.onnx --output boxes --output scores");

  auto words = Words(a->apply);
  const Report after = Compile({words.begin() + 1, words.end()});
  ExpectAsPredicted(before, after, *a);
  EXPECT_EQ(after.coverage.nodes_host, 0);
  ASSERT_EQ(after.outputs.size(), 2u);
  EXPECT_EQ(after.outputs[0].name + " " + after.outputs[1].name, "boxes scores");
  // Only the tail is left out, and all else stays where it was.
  std::set<std::string> gone;
  ASSERT_EQ(after.nodes.size(), before.nodes.size());
  for (size_t i = 0; i < after.nodes.size(); ++i) {
    ASSERT_EQ(after.nodes[i].id, before.nodes[i].id);
    if (before.nodes[i].verdict == "host")
      gone.insert(after.nodes[i].id + " " + after.nodes[i].verdict);
    else
      EXPECT_EQ(after.nodes[i].verdict, before.nodes[i].verdict) << after.nodes[i].id;
  }
  EXPECT_EQ(gone, (std::set<std::string>{"nms eliminated", "where eliminated", "picked eliminated"}));
}

// A host node that NPU nodes come behind is no tail.
TEST_F(Advised, NoCutWhereTheNpuGoesOn) {
  ModelBuilder b;
  Tensor w = Tensor::Allocate(DType::F32, {16, 16, 3, 3});
  for (int64_t i = 0; i < w.num_elements(); ++i)
    w.mutable_data<float>()[i] = float(i % 7 - 3) / 16;
  b.In("x", {1, 16, 16, 16}).Init("w", w);
  b.Node("Conv", {"x", "w"}, {"a"}, {Is("pads", {1, 1, 1, 1})}, "first");
  b.Node("Erf", {"a"}, {"b"}, {}, "middle");
  b.Node("Conv", {"b", "w"}, {"y"}, {Is("pads", {1, 1, 1, 1})}, "last");
  b.Out("y");
  const Report r = Compile({Write("m.onnx", b.m.SerializeAsString()), "--deny-node", "middle"});
  EXPECT_EQ(r.coverage.nodes_host, 1);
  EXPECT_FALSE(Find(r, "output-cut"));
}

// ---- npu-run

llvm::json::Value Json(const fs::path &path) {
  auto v = ParseJson(ReadAll(path), path.string());
  EXPECT_TRUE(v.ok()) << path;
  return v.ok() ? *v : llvm::json::Value(nullptr);
}

TEST_F(Advised, ProfileAndTraceAgreeWithTheReport) {
  const Report r = Compile({Write("head.onnx", DetectionHead())});
  const Outcome run =
      RunTool("npu-run", {"m.bin", "--random", "1", "-q", "--profile", "p.json", "--trace", "t.json"}, dir_);
  ASSERT_EQ(run.code, 0) << run.err;

  const llvm::json::Value profile = Json(dir_ / "p.json");
  const auto &modelled = *profile.getAsObject()->getObject("modelled");
  EXPECT_EQ(modelled.getInteger("cycles"), r.performance.cycles);
  EXPECT_EQ(*modelled.getInteger("ddr_read_bytes") + *modelled.getInteger("stream_bytes"),
            r.performance.ddr_read_bytes);
  EXPECT_EQ(modelled.getInteger("ddr_write_bytes"), r.performance.ddr_write_bytes);
  const auto &layers = *profile.getAsObject()->getArray("layers");
  ASSERT_EQ(layers.size(), r.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto &l = *layers[i].getAsObject();
    EXPECT_EQ(l.getInteger("id"), r.layers[i].id);
    EXPECT_EQ(l.getString("name")->str(), r.layers[i].name);
    EXPECT_EQ(l.getInteger("cycles"), r.layers[i].cycles) << r.layers[i].name;
    EXPECT_EQ(l.getInteger("ddr_write_bytes"), r.layers[i].ddr_write_bytes) << r.layers[i].name;
  }
  int64_t npu_cycles = 0;
  size_t host_steps = 0;
  for (const auto &step : *profile.getAsObject()->getArray("steps")) {
    const auto &s = *step.getAsObject();
    if (*s.getString("kind") == "npu") {
      npu_cycles += *s.getInteger("cycles");
      continue;
    }
    ++host_steps;
    EXPECT_GT(s.getNumber("measured_us").value_or(-1), 0);
    EXPECT_FALSE(s.getArray("nodes")->empty());
  }
  EXPECT_EQ(npu_cycles, r.performance.cycles);
  EXPECT_EQ(host_steps, r.performance.host_steps.size());

  // Chrome's trace-event format: complete events (X) and metadata (M), times in microseconds.
  const llvm::json::Value trace = Json(dir_ / "t.json");
  std::map<int64_t, std::string> tracks;
  std::map<int64_t, double> end; // by track
  std::map<int64_t, double> busy;
  double last = 0, host_us = 0;
  for (const auto &event : *trace.getAsObject()->getArray("traceEvents")) {
    const auto &e = *event.getAsObject();
    ASSERT_TRUE(e.getString("name") && e.getString("ph") && e.getInteger("pid") && e.getInteger("tid"));
    const int64_t tid = *e.getInteger("tid");
    if (*e.getString("ph") == "M") {
      if (*e.getString("name") == "thread_name")
        tracks[tid] = e.getObject("args")->getString("name")->str();
      continue;
    }
    ASSERT_EQ(*e.getString("ph"), "X");
    const double ts = *e.getNumber("ts"), dur = *e.getNumber("dur");
    EXPECT_GE(dur, 0);
    EXPECT_GE(ts, end[tid] - 1e-6) << "events of a track overlap";
    end[tid] = ts + dur;
    busy[tid] += dur;
    last = std::max(last, ts + dur);
    if (tracks[tid].rfind("host", 0) == 0)
      host_us += dur;
  }
  for (const auto &[engine, share] : r.performance.engine_busy) {
    auto track = std::find_if(tracks.begin(), tracks.end(), [&](auto &t) { return t.second == engine; });
    ASSERT_NE(track, tracks.end()) << engine;
    EXPECT_NEAR(busy[track->first] * r.target.clock_mhz, share * double(r.performance.cycles), 1) << engine;
  }
  // NPU and host stand one after another; the report rounds each segment up to a whole cycle.
  EXPECT_NEAR((last - host_us) * r.target.clock_mhz, double(r.performance.cycles), double(r.coverage.npu_segments));
}

} // namespace
} // namespace npuc::e2e
