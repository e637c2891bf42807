// The IR's own operations on a chain of n nodes that all use one shared constant.
#include <benchmark/benchmark.h>

#include "compiler/ir/graph.h"

namespace npuc {
namespace {

std::unique_ptr<Module> Chain(int n) {
  auto m = std::make_unique<Module>();
  Graph &g = m->main();
  const Type type = Type::Tensor(DType::F32, Shape({1, 64, 56, 56}));
  Value *x = g.AddInput("x", type);
  Value *one = g.AddConstant(Tensor::ScalarF32(1), "one");
  const OpDef *add = LookupOp("", "Add");
  for (OriginId i = 0; i < static_cast<OriginId>(n); ++i) {
    m->onnx_nodes().push_back({"node" + std::to_string(i), "", "Add", ""});
    x = g.AddNode(add, {x, one}, 1, {i})->result();
    x->set_type(type);
  }
  g.AddOutput(x, "y");
  return m;
}

void BM_Build(benchmark::State &state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(Chain(state.range(0)));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void BM_Verify(benchmark::State &state) {
  auto m = Chain(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(Verify(*m).ok());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void BM_Print(benchmark::State &state) {
  auto m = Chain(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(Print(*m));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void BM_Parse(benchmark::State &state) {
  const std::string text = Print(*Chain(state.range(0)));
  for (auto _ : state)
    benchmark::DoNotOptimize(ParseModule(text).ok());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void BM_Hash(benchmark::State &state) {
  auto m = Chain(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(Hash(*m));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void BM_Clone(benchmark::State &state) {
  auto m = Chain(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(Clone(*m));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

#define SIZES ->Arg(1000)->Arg(100000)->Unit(benchmark::kMillisecond)
BENCHMARK(BM_Build) SIZES;
BENCHMARK(BM_Verify) SIZES;
BENCHMARK(BM_Print) SIZES;
BENCHMARK(BM_Parse) SIZES;
BENCHMARK(BM_Hash) SIZES;
BENCHMARK(BM_Clone) SIZES;

} // namespace
} // namespace npuc

BENCHMARK_MAIN();
