#include "test/lower/conformance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "backend/emit/emit.h"
#include "backend/lower/registry.h"
#include "backend/verify/verify.h"
#include "compiler/interp/interpreter.h"
#include "compiler/ops/infer.h"
#include "compiler/pass/pass.h"
#include "compiler/support/half.h"
#include "runtime_stub/machine.h"

namespace npuc::lower {
namespace {

std::unique_ptr<Module> Parse(const std::string &text) {
  auto m = ParseModule(text);
  if (!m.ok()) {
    ADD_FAILURE() << m.status().ToString() << "\n" << text;
    return nullptr;
  }
  if (const Status s = InferShapes((*m)->main()); !s.ok()) {
    ADD_FAILURE() << s.ToString() << "\n" << text;
    return nullptr;
  }
  for (Node &n : (*m)->main().nodes())
    if (!n.is_constant() && !n.is_return())
      n.set_placement(Placement::Npu);
  return *std::move(m);
}

Tensor RandomTensor(const Type &t, std::mt19937 &rng, const Case &c) {
  const Dims dims = t.shape().static_dims();
  Tensor r = Tensor::Allocate(t.dtype(), dims);
  std::normal_distribution<float> normal(0, 2);
  for (int64_t i = 0, n = r.num_elements(); i < n; ++i) {
    switch (t.dtype()) {
    case DType::F16:
      r.mutable_data<uint16_t>()[i] = FloatToHalf(normal(rng));
      break;
    case DType::F32:
      r.mutable_data<float>()[i] = normal(rng);
      break;
    case DType::I32:
      r.mutable_data<int32_t>()[i] = std::uniform_int_distribution<int32_t>(c.index_lo, c.index_hi - 1)(rng);
      break;
    case DType::I64:
      r.mutable_data<int64_t>()[i] = std::uniform_int_distribution<int64_t>(c.index_lo, c.index_hi - 1)(rng);
      break;
    case DType::Bool:
      r.mutable_bytes()[i] = rng() & 1;
      break;
    case DType::I16:
      r.mutable_data<int16_t>()[i] = static_cast<int16_t>(rng());
      break;
    default:
      r.mutable_bytes()[i] = static_cast<uint8_t>(rng());
      break;
    }
  }
  return r;
}

// The model's NPU steps on the machine. `eager`: the other legal order.
std::vector<Tensor> Execute(const container::ModelFile &file, const Target &t, const std::vector<Tensor> &inputs,
                            bool eager) {
  auto buffer = [](std::vector<std::vector<uint64_t>> &keep, int64_t bytes) {
    keep.emplace_back((bytes + 64) / 8 + 8, uint64_t{0xa5a5a5a5a5a5a5a5});
    return runtime::Image{reinterpret_cast<uint8_t *>(keep.back().data()), bytes};
  };
  std::vector<std::vector<uint64_t>> keep;
  keep.reserve(3 + file.inputs.size() + file.outputs.size());
  runtime::Memory memory;
  memory.constants = buffer(keep, file.const_bytes);
  std::fill_n(memory.constants.data, file.const_bytes, 0);
  for (const auto &p : file.const_pieces)
    p.CopyTo(memory.constants.data + p.offset);
  memory.arena = buffer(keep, file.arena_bytes);
  memory.sram = buffer(keep, file.sram_bytes);
  for (size_t i = 0; i < file.inputs.size(); ++i) {
    memory.io.push_back(buffer(keep, file.inputs[i].bytes));
    std::memcpy(memory.io.back().data, inputs[i].bytes(), file.inputs[i].bytes);
  }
  for (const auto &o : file.outputs)
    memory.io.push_back(buffer(keep, o.bytes));
  runtime::Workspace workspace;
  runtime::Context context{
      memory, {static_cast<int>(t.mxu.oc), static_cast<int>(t.C2(DType::I8)), static_cast<int>(t.C2(DType::F16))}};
  context.workspace = &workspace;
  for (const auto &step : file.steps) {
    const auto &stream = std::get<container::NpuStep>(step).stream;
    const auto order = runtime::ReplayOrder(stream, eager);
    EXPECT_TRUE(order.ok()) << order.status().ToString();
    if (!order.ok())
      return {};
    for (uint32_t i : *order)
      EXPECT_TRUE(runtime::Execute(stream[i], context).ok());
  }
  std::vector<Tensor> r;
  for (size_t i = 0; i < file.outputs.size(); ++i) {
    Tensor y = Tensor::Allocate(file.outputs[i].type.dtype(), file.outputs[i].type.shape().static_dims());
    std::memcpy(y.mutable_bytes(), memory.io[file.inputs.size() + i].data, file.outputs[i].bytes);
    r.push_back(y);
  }
  return r;
}

// Ordered by value: neighbours differ by 1.
int32_t HalfRank(uint16_t h) {
  return h & 0x8000 ? -static_cast<int32_t>(h & 0x7fff) : h;
}

bool Close(const Tensor &a, const Tensor &b, int64_t i, const Case &c) {
  const int size = ByteSize(a.dtype());
  if (std::memcmp(a.bytes() + i * size, b.bytes() + i * size, size) == 0)
    return true;
  if (a.dtype() != DType::F16)
    return false;
  const uint16_t x = a.data<uint16_t>()[i], y = b.data<uint16_t>()[i];
  const float fx = HalfToFloat(x), fy = HalfToFloat(y);
  if (fx != fx && fy != fy)
    return true;
  if (c.exact)
    return fx == fy; // zeros of both signs
  return std::abs(HalfRank(x) - HalfRank(y)) <= c.ulps || std::abs(fx - fy) < 1e-5f;
}

} // namespace

int64_t ExpectConforms(const Case &c) {
  auto target = Target::FromPreset(c.target);
  EXPECT_TRUE(target.ok());
  if (c.sram)
    target->sram.bytes = c.sram;
  std::unique_ptr<Module> m = Parse(c.text);
  if (!m)
    return -1;
  const CheckContext check{*target};
  for (const Node &n : m->main().nodes()) {
    if (n.is_constant() || n.is_return())
      continue;
    for (const Violation &v : ReferenceNpuOps().Check(n, check))
      ADD_FAILURE() << PrintNode(n) << "\n" << v.rule << ": " << v.message;
  }
  std::mt19937 rng(1);
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < m->main().num_inputs(); ++i)
    inputs.push_back(RandomTensor(m->main().input(i)->type(), rng, c));
  Interpreter interpreter(m->main());
  auto expected = interpreter.Run(inputs);
  if (!expected.ok()) {
    ADD_FAILURE() << expected.status().ToString();
    return -1;
  }

  DiagnosticEngine diagnostics;
  PassContext pass(*target, diagnostics);
  pass.npu = &ReferenceNpuOps();
  const Pass *layouts = LookupPass("assign-layouts");
  EXPECT_NE(layouts, nullptr);
  std::unique_ptr<Module> laid = Clone(*m);
  const auto changed = layouts->run(*laid, pass);
  EXPECT_TRUE(changed.ok()) << changed.status().ToString();
  auto emitted = emit::Emit(*laid, ReferenceNpuOps(), *target, {});
  if (!emitted.ok()) {
    ADD_FAILURE() << emitted.status().ToString() << "\n" << Print(*laid, false);
    return -1;
  }
  for (const auto &f : verify::VerifyModel(emitted->file))
    ADD_FAILURE() << f.code << " " << f.text;
  if (testing::Test::HasFailure())
    return -1;

  int64_t tiles = 0;
  for (const auto &l : emitted->layers)
    tiles += l.tiles;
  if (c.emits)
    EXPECT_FALSE(emitted->file.steps.empty());
  for (const bool eager : {false, true}) {
    const std::vector<Tensor> got = Execute(emitted->file, *target, inputs, eager);
    EXPECT_EQ(got.size(), expected->size());
    for (size_t k = 0; k < got.size(); ++k) {
      const Tensor want = (*expected)[k].tensor()->Expand();
      int64_t wrong = 0, first = -1;
      for (int64_t i = 0; i < want.num_elements(); ++i)
        if (!Close(got[k], want, i, c)) {
          if (wrong++ == 0)
            first = i;
        }
      if (wrong) {
        ADD_FAILURE() << "output " << k << (eager ? " (eager)" : "") << ": " << wrong << " of " << want.num_elements()
                      << " differ, first " << first << ": " << got[k].AsDouble(first) << " for " << want.AsDouble(first)
                      << "\n"
                      << Print(*laid, false);
        return -1;
      }
    }
  }
  return tiles;
}

std::string BrokenRules(const std::string &text, const std::string &target_name) {
  auto target = Target::FromPreset(target_name);
  std::unique_ptr<Module> m = Parse(text);
  if (!m || !target.ok())
    return "?";
  const Node *last = nullptr;
  for (const Node &n : m->main().nodes())
    if (!n.is_constant() && !n.is_return())
      last = &n;
  std::set<std::string> ids;
  for (const Violation &v : ReferenceNpuOps().Check(*last, CheckContext{*target}))
    ids.insert(v.rule);
  std::string r;
  for (const std::string &s : ids)
    r += (r.empty() ? "" : " ") + s;
  return r;
}

std::string RandomConstant(const std::string &name, const std::string &type, int64_t elements, double lo, double hi,
                           bool real) {
  std::mt19937 rng(static_cast<uint32_t>(elements * 7 + static_cast<int64_t>(name.size())));
  std::string s = "  %" + name + ": " + type + " = Constant() {value = dense<";
  for (int64_t i = 0; i < elements; ++i) {
    if (i)
      s += ", ";
    if (real)
      s += fmt::format("{:.4f}", std::uniform_real_distribution<double>(lo, hi)(rng));
    else
      s += std::to_string(
          std::uniform_int_distribution<int64_t>(static_cast<int64_t>(lo), static_cast<int64_t>(hi))(rng));
  }
  return s + ">}\n";
}

} // namespace npuc::lower
