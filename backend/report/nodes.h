// The parts of BuildReport that look at nodes.
#pragma once

#include <vector>

#include "backend/report/build.h"

namespace npuc::report {

enum class Verdict : uint8_t { Eliminated, Npu, Host };

// By OriginId.
std::vector<Verdict> Verdicts(const BuildInput &in);

// `nodes` and the counts and percentages of `coverage`.
void FillNodes(const BuildInput &in, const std::vector<Verdict> &verdicts, Report *r);

// Bytes of tensors that cross between NPU and host steps, each once for each side that reads it.
int64_t BoundaryBytes(const Module &m);
// The most bytes of intermediate tensors of NPU nodes that are alive at once, in the order of the graph.
int64_t LiveBytes(const Module &m);

// One row a host step: its nodes, MACs, bytes read and written, and the time that the target's host takes for them.
std::vector<HostStepRow> HostSteps(const BuildInput &in);

} // namespace npuc::report
