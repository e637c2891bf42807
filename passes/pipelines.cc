#include "passes/pipelines.h"

namespace npuc {

Pipeline SimplifyPipeline() {
  return {
      // Types are inferred, what is known is folded, Ifs with a known condition are gone. Each round may make new
      // constants: a Reshape of a
      // folded shape, say. From here on, static shapes are final.
      {{"fold-constants", "remove-identities", "merge-equal-nodes", "eliminate-dead-nodes"}, 4},
  };
}

Pipeline CalibrationPipeline(const PassOptions &options) {
  Pipeline p = SimplifyPipeline();
  // Integer tensors carry their scales; QuantizeLinear, DequantizeLinear with constant parameters and QLinear* are
  // gone.
  p.push_back({{"type-quantized", "convert-integer-products", "expand-quantize", "split-gemm"}});
  // Control flow and recurrent layers that the NPU can run straight on are gone.
  p.push_back({{"convert-ifs", "unroll-loops", "unroll-recurrent"}});
  if (options.opt_level > 0) {
    // Patterns of exporters become the operators they mean. Nothing here looks at the target.
    p.push_back({{"form-slice-update", "form-depth-to-space", "form-layer-norm", "merge-clips", "form-activations", "merge-clips"}});
    // Weights take in what is linear behind them.
    p.push_back({{"fold-affine"}, 2});
    // Batch normalisation that is left is a layer of its own, and takes in what is linear behind it.
    p.push_back({{"convert-batch-norm", "fold-affine"}, 2});
  }
  return p;
}

Pipeline DefaultPipeline(const PassOptions &options) {
  const bool reference = options.precision == Precision::Fp32;
  Pipeline p = reference ? SimplifyPipeline() : CalibrationPipeline(options);
  auto then = [&](std::vector<std::string> passes, int rounds = 1) { p.push_back({std::move(passes), rounds}); };

  if (!reference) {
    // With samples or ranges, float operators stand between Dequantize and Quantize.
    then({"quantize-calibrated"});
    // Float work between Dequantize and Quantize is integer work where the hardware takes it.
    then({"convert-qdq"});
    if (options.opt_level > 0)
      then({"fold-pads"});
    // Dequantized constants that no integer operator wanted become floats.
    then({"fold-constants", "remove-identities", "merge-equal-nodes", "eliminate-dead-nodes"}, 2);

    // Every float on the NPU is f16 from here on, and casts stand where host and NPU meet. No pass infers types any
    // more: f32 chain values inside Fused bodies and f16 results are said by the types themselves.
    then({"assign-precision"});
    then({"remove-identities", "merge-equal-nodes", "eliminate-dead-nodes"});
    if (options.opt_level > 0) {
      // Reshapes and weights as the layouts to come will have them.
      then({"shuffle-channels", "reshape-channels-last", "flatten-channels-last", "remove-identities",
            "eliminate-dead-nodes"});
      // The last pass that joins nodes: what follows a matrix operator is in its output stage.
      then({"fuse-output-stages"});
    }
  }

  // Every node has a placement; host nodes aren't Fused.
  then({"place-nodes"});
  // Nodes of a segment stand together; f16 on the host is f32. No pass moves nodes any more.
  then({"order-segments"});
  // Types say how tensors lie in memory.
  if (!reference)
    then({"native-io", "assign-layouts"});
  return p;
}

} // namespace npuc
