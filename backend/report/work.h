// How much work a model is, before any fusion or lowering, and the bounds that no schedule can beat: the yardstick of
// efficiency (docs/npu-isa.md, section on timing). Taken from the imported graph after shape inference, constant
// folding and dead code, so that no later pass can move it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/target/target.h"

namespace npuc::report {

// The work of one ONNX node. All figures are exact for static shapes and 0 otherwise.
struct NodeWork {
  OriginId origin = 0;
  DType dtype = DType::Undefined; // the type that it computes in on the NPU: see WorkView
  int64_t macs = 0;        // true multiply-accumulates, taps on padding included; ConvTranspose: without cropped ones
  double array_steps = 0;  // array_bound's share in cycles at mac rate 1, fractional
  int64_t outputs = 0;     // of a matrix operator: elements through the output stage
  double vpu_elements = 0; // elements times passes of MaxPool, Softmax and normalisations
  // Constants that the NPU must read at least once: weights of matrix operators, gathered rows of tables.
  struct Constant {
    const void *data; // identity: shared constants are stored once
    int64_t bytes;
  };
  std::vector<Constant> constants;
};

struct ModelWork {
  std::vector<NodeWork> nodes; // of nodes with any work, in the order of the graph, bodies included
  // Inputs and outputs of the main graph, by index: the ONNX nodes that read or write them, also through
  // nodes that only pass all elements on.
  std::vector<std::vector<OriginId>> input_readers, output_writers;
};

// What a float operator will compute in: F16 on targets that have it, I8 or I16 by the precision option.
// Operators whose first operand comes from integers (QLinear..., ...Integer, DequantizeLinear) count as those.
struct WorkView {
  DType float_as = DType::F16;
  bool four_bit_weights = false; // float weights may be stored with four bits (--quant-config)
};

ModelWork AnalyzeWork(const Module &m, const Target &target, const WorkView &view);

struct Bounds {
  int64_t macs = 0;                            // of nodes on the NPU
  double weighted_macs = 0;                    // each divided by its mac rate
  double array = 0, ppu = 0, vpu = 0, ddr = 0; // cycles
  int64_t ddr_compulsory_bytes = 0;
  double cycles = 0;  // the greatest of the four
  double pj_macs = 0; // energy of the MACs
};

// Of the nodes for which `on_npu` holds: cycles are those of NPU segments alone, so what runs on the host must not
// count. `input_bytes`, `output_bytes`: what lies in DDR for each input and output of the main graph (0: no fixed
// size).
Bounds ComputeBounds(const ModelWork &work, const Target &target, const std::function<bool(OriginId)> &on_npu,
                     llvm::ArrayRef<int64_t> input_bytes, llvm::ArrayRef<int64_t> output_bytes);

} // namespace npuc::report
