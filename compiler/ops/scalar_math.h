// The scalar functions of ONNX's elementwise operators, on float and double: one definition for interpreter, table
// builder and executor, each in this order of operations. NaN in, NaN out.
#pragma once

#include "compiler/support/fpmath.h"

namespace npuc::scalar {

template <class T> inline T Relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <class T> inline T LeakyRelu(T x, T alpha) {
  return x < T(0) ? alpha * x : x;
}
template <class T> inline T ThresholdedRelu(T x, T alpha) {
  return x > alpha ? x : (x == x ? T(0) : x);
}
template <class T> inline T Elu(T x, T alpha) {
  return x < T(0) ? alpha * fpmath::Expm1(x) : x;
}
template <class T> inline T Selu(T x, T alpha, T gamma) {
  return x > T(0) ? gamma * x : gamma * (alpha * fpmath::Expm1(x));
}
template <class T> inline T Celu(T x, T alpha) {
  return x < T(0) ? alpha * fpmath::Expm1(x / alpha) : x;
}
template <class T> inline T Min(T a, T b) {
  return a != a ? a : b != b ? b : (b < a ? b : a);
}
template <class T> inline T Max(T a, T b) {
  return a != a ? a : b != b ? b : (a < b ? b : a);
}
// min above max gives max; NaN stays.
template <class T> inline T Clip(T x, T lo, T hi) {
  x = x < lo ? lo : x;
  return x > hi ? hi : x;
}
template <class T> inline T HardSigmoid(T x, T alpha, T beta) {
  return Clip(alpha * x + beta, T(0), T(1));
}
template <class T> inline T HardSwish(T x) {
  return x * Clip(x * T(1.0 / 6.0) + T(0.5), T(0), T(1));
}
template <class T> inline T Swish(T x, T alpha) {
  return x * fpmath::Sigmoid(alpha * x);
}
template <class T> inline T Softsign(T x) {
  const T a = x < T(0) ? -x : x;
  return a > std::numeric_limits<T>::max() ? (x < T(0) ? T(-1) : T(1)) : x / (T(1) + a);
}
template <class T> inline T Mish(T x) {
  return x * fpmath::Tanh(fpmath::Softplus(x));
}
template <class T> inline T Shrink(T x, T lambd, T bias) {
  return x < -lambd ? x + bias : x > lambd ? x - bias : (x == x ? T(0) : x);
}
template <class T> inline T Sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == x ? T(0) : x;
}
template <class T> inline T Abs(T x) {
  return x < T(0) ? -x : x == T(0) ? T(0) : x;
}

} // namespace npuc::scalar
