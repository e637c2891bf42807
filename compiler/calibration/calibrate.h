// Runs samples through a float graph and keeps statistics of every float value.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/calibration/statistics.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/status.h"

namespace npuc {

class ThreadPool;

// Where samples come from. One sample has a value for each input of the graph.
class SampleSource {
public:
  virtual ~SampleSource() = default;
  virtual int64_t size() const = 0;
  virtual std::string name(int64_t sample) const = 0;
  // Called from several threads at once. Errors are the sample's.
  virtual StatusOr<std::vector<EvalValue>> Read(int64_t sample) const = 0;
};

struct Calibration {
  CalibrationTable table;
  std::vector<uint64_t> hashes; // of the samples' values, in the order of `which`
};

// Runs the samples numbered in `which` (ascending), one a thread at a time, by the interpreter's own kernels; the
// result does not depend on the number of threads. Memory: what one sample needs, a thread. `progress`, if given, is
// called with the number of samples done, from one thread at a time.
//
// Every bad sample is reported to `diagnostics` by name (unreadable, wrong shape or type, NaN or infinity in it: E0510;
// the first kMostBadSamples of them), the status is then AlreadyReported(). Activations that are not finite are a
// warning: they are counted and left out.
inline constexpr int kMostBadSamples = 20;
StatusOr<Calibration> Calibrate(const Graph &graph, const SampleSource &samples, const std::vector<int64_t> &which,
                                ThreadPool *threads, DiagnosticEngine &diagnostics,
                                const std::function<void(int64_t done)> &progress = nullptr);

// The axis of a value whose slices are called channels: 1 for [N,C,...]; the last for what matrix products and layer
// normalisation read or make, and for rank 3 without a convolution beside it. -1: rank 0 or 1.
int ChannelAxis(const Value &v);

} // namespace npuc
