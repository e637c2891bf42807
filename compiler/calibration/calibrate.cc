// Samples are shared out over the threads, one at a time; each thread has its own interpreter and table, and the tables
// are merged at the end, which is exact in any order (statistics.h).
#include "compiler/calibration/calibrate.h"

#include <algorithm>
#include <mutex>

#include "compiler/interp/interpreter.h"
#include "compiler/ops/convert.h"
#include "compiler/support/hash.h"
#include "compiler/support/object_pool.h"
#include "compiler/support/thread_pool.h"
#include "llvm/ADT/DenseMap.h"

namespace npuc {
namespace {

bool IsMeasured(DType t) {
  return t == DType::F32 || t == DType::F16 || t == DType::BF16 || t == DType::F64;
}

bool HasChannelsLast(const Node &n) {
  return n.Is("MatMul") || n.Is("Gemm") || n.Is("LayerNormalization");
}

Status CheckFinite(const Value &input, const EvalValue &value) {
  const Tensor *t = value.tensor();
  if (!t || !IsMeasured(t->dtype()))
    return OkStatus();
  const Tensor f = t->dtype() == DType::F32 ? *t : ops::ConvertTensor(*t, DType::F32);
  int64_t nan = 0, infinite = 0;
  for (float v : f.values<float>()) {
    nan += v != v;
    infinite += v - v != 0 && v == v;
  }
  if (nan + infinite == 0)
    return OkStatus();
  return Error("E0510",
               fmt::format("the value for '{}' has {} NaN and {} infinite elements of {}", input.name(), nan, infinite,
                           f.num_elements()),
               "leave the sample out, or mend it: such numbers say nothing about ranges");
}

// What one thread works with.
struct Worker {
  explicit Worker(const Graph &graph) : graph(graph), interpreter(graph) {
    interpreter.set_observer([this](const Value &v, const EvalValue &value) { Observe(v, value); });
  }

  void Observe(const Value &v, const EvalValue &value) {
    const Tensor *t = value.tensor();
    if (!t || !IsMeasured(t->dtype()) || v.type().is_quantized())
      return;
    auto [it, fresh] = seen.try_emplace(&v);
    if (fresh)
      it->second = {&table[v.name()], ChannelAxis(v)};
    const Tensor f = (t->dtype() == DType::F32 ? *t : ops::ConvertTensor(*t, DType::F32)).Expand();
    it->second.statistics->Add(sample, f.values<float>(), f.dims(), it->second.axis);
  }

  Status Run(const SampleSource &samples, int64_t number, uint64_t &hash) {
    sample = number;
    NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> inputs, samples.Read(number));
    hash = 0;
    for (unsigned i = 0; i < inputs.size() && i < graph.num_inputs(); ++i) {
      NPUC_RETURN_IF_ERROR(CheckFinite(*graph.input(i), inputs[i]));
      if (const Tensor *t = inputs[i].tensor())
        hash = HashCombine(hash, t->Expand().Hash());
    }
    return interpreter.Run(std::move(inputs)).status();
  }

  const Graph &graph;
  Interpreter interpreter;
  CalibrationTable table;
  int64_t sample = 0;
  struct Seen {
    TensorStatistics *statistics; // in table, whose entries stay where they are
    int axis;
  };
  llvm::DenseMap<const Value *, Seen> seen; // looked up only
};

// Values that were not finite, in the order of the graph.
void WarnNotFinite(const Graph &graph, const CalibrationTable &table, DiagnosticEngine &diagnostics) {
  std::string first;
  int64_t tensors = 0;
  auto look = [&](const Value &v) {
    const TensorStatistics *t = table.Find(v.name());
    if (!t || t->nan_count + t->inf_count == 0)
      return;
    if (tensors++ == 0)
      first = fmt::format("'{}' had {} NaN and {} infinite elements", v.name(), t->nan_count, t->inf_count);
  };
  WalkNodes(graph, [&](const Node &n) {
    for (unsigned i = 0; i < n.num_results(); ++i)
      look(*n.result(i));
  });
  if (tensors == 0)
    return;
  if (tensors > 1)
    first += fmt::format(", and so had {} tensors after it", tensors - 1);
  diagnostics.Warning("calibration: " + first + "; they are not in its statistics",
                      "check the samples and the preprocessing: the float model itself makes these numbers");
}

} // namespace

StatusOr<Calibration> Calibrate(const Graph &graph, const SampleSource &samples, const std::vector<int64_t> &which,
                                ThreadPool *threads, DiagnosticEngine &diagnostics,
                                const std::function<void(int64_t done)> &progress) {
  Calibration c;
  c.hashes.resize(which.size());
  std::vector<Status> bad(which.size());
  std::mutex mutex;
  ObjectPool<Worker> workers;
  int64_t done = 0, failed = 0;
  auto run = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      std::unique_ptr<Worker> worker = workers.Take([&] { return std::make_unique<Worker>(graph); });
      const Status status = worker->Run(samples, which[i], c.hashes[i]);
      workers.Give(std::move(worker));
      std::lock_guard lock(mutex);
      failed += !status.ok();
      bad[i] = status;
      if (progress)
        progress(++done);
    }
  };
  if (threads)
    threads->ParallelFor(which.size(), 1, run);
  else
    run(0, which.size());
  if (failed) {
    int64_t told = 0;
    for (size_t i = 0; i < bad.size(); ++i)
      if (!bad[i].ok() && told++ < kMostBadSamples)
        diagnostics.ReportStatus(AtFile(bad[i], samples.name(which[i])));
    if (told > kMostBadSamples)
      diagnostics.Note(fmt::format("{} more samples are bad", told - kMostBadSamples));
    return AlreadyReported();
  }
  for (const auto &worker : workers.idle())
    c.table.Merge(worker->table);
  WarnNotFinite(graph, c.table, diagnostics);
  return c;
}

int ChannelAxis(const Value &v) {
  if (!v.type().is_tensor() || !v.type().shape().ranked())
    return -1;
  const int rank = v.type().shape().rank();
  if (rank < 2)
    return -1;
  bool last = v.def() && HasChannelsLast(*v.def()), conv = v.def() && v.def()->Is("Conv");
  for (const Use &use : v.uses())
    if (use.operand == 0) {
      last |= HasChannelsLast(*use.user);
      conv |= use.user->Is("Conv");
    }
  return last || (rank == 3 && !conv) ? rank - 1 : 1;
}

} // namespace npuc
