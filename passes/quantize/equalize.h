// Cross-layer equalisation of a float graph: channels of a tensor get ranges of like size, so that one scale serves
// them all.
#pragma once

#include <map>
#include <string>

#include "passes/quantize/quant_plan.h"

namespace npuc {

// For each Conv whose result only one other Conv reads, perhaps through Relu, LeakyRelu or PRelu, both integer in the
// plan and with statistics of the tensor between them by channel: filter i of the first is divided by s_i, input
// channel i of the second multiplied by it. The model computes the same. The tensors between the two are other tensors
// now, and are named so (".equalised"); their new ranges are the result, by name.
std::map<std::string, ValueRange> Equalize(Graph &g, const QuantPlan &plan, PassContext &ctx);

} // namespace npuc
