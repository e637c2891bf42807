// oneDNN through the trampolines of third_party/onednn: a small convolution with all kinds of calls.
#include "third_party/onednn/lazy.h"

#include <gtest/gtest.h>

#include <oneapi/dnnl/dnnl.hpp>

#include <vector>

namespace npuc {
namespace {

TEST(OneDnn, ConvolvesThroughTheTrampolines) {
  ASSERT_TRUE(OneDnnAvailable());
  using namespace dnnl;
  engine cpu(engine::kind::cpu, 0);
  stream s(cpu);
  const memory::desc x_desc({1, 1, 4, 4}, memory::data_type::f32, memory::format_tag::nchw);
  const memory::desc w_desc({1, 1, 3, 3}, memory::data_type::f32, memory::format_tag::oihw);
  const memory::desc y_desc({1, 1, 2, 2}, memory::data_type::f32, memory::format_tag::nchw);
  std::vector<float> x(16), w(9, 1.0f), y(4);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i);
  memory xm(x_desc, cpu, x.data()), wm(w_desc, cpu, w.data()), ym(y_desc, cpu, y.data());
  const convolution_forward::desc desc(prop_kind::forward_inference, algorithm::convolution_direct, x_desc, w_desc,
                                       y_desc, {1, 1}, {0, 0}, {0, 0});
  // Floats among the arguments: post-op scale 1, alpha 2, beta 3 (linear: 2 y + 3).
  post_ops ops;
  ops.append_eltwise(1.0f, algorithm::eltwise_linear, 2.0f, 3.0f);
  primitive_attr attr;
  attr.set_post_ops(ops);
  convolution_forward conv(convolution_forward::primitive_desc(desc, attr, cpu));
  conv.execute(s, {{DNNL_ARG_SRC, xm}, {DNNL_ARG_WEIGHTS, wm}, {DNNL_ARG_DST, ym}});
  s.wait();
  EXPECT_EQ(y, (std::vector<float>{2 * 45 + 3, 2 * 54 + 3, 2 * 81 + 3, 2 * 90 + 3}));
}

} // namespace
} // namespace npuc
