// Adaptive rounding and bias correction.
//
// An output is the product of a filter w and an input vector x. Rounded to nearest, w's error e gives the output an
// error e.x whose size depends on how the elements of x go together: neighbouring pixels and channels are far from
// independent, and most errors can be made to cancel. With C the covariance of x, the expected square is e C e'.
// Factored as C = U D U' with U unit upper triangular, it is the sum of D_k ((e U)_k)^2, and (e U)_k is e_k plus what
// the elements before k have left: rounding w_k plus that remainder leaves at most half a step in each term. The mean
// of x is left to the bias, exactly.
//
// Cost: rows * k^2 / 2 for the moments, k^3 / 3 to factor, k^2 / 2 a filter. Filters of more than kMostInputs elements
// are rounded to nearest. All sums in double, in one order; threads share out rows of the matrix and filters, which are
// independent.
#include "passes/quantize/round_weights.h"

#include <algorithm>
#include <cmath>

#include "compiler/calibration/calibrate.h"
#include "compiler/interp/interpreter.h"
#include "compiler/support/thread_pool.h"
#include "passes/quantize/quant_rewrite.h"

namespace npuc {
namespace {

constexpr int64_t kMostInputs = 1200;
constexpr int64_t kBatch = 256; // rows that are gathered before they are multiplied

// A matrix operator as filters over input vectors.
struct Filters {
  int64_t groups = 1, k = 0, channels = 0; // channels: of all groups
  // Element j of channel c in the constant.
  int64_t stride_c = 0, stride_k = 1;
  int64_t Index(int64_t c, int64_t j) const { return c * stride_c + j * stride_k; }
};
std::optional<Filters> FiltersOf(const Node &n, llvm::ArrayRef<int64_t> dims) {
  Filters f;
  if (n.Is("Conv")) {
    f.groups = n.attrs().Int("group", 1);
    f.channels = dims[0];
    f.k = NumElements(dims) / std::max<int64_t>(dims[0], 1);
    f.stride_c = f.k;
    return f;
  }
  if ((n.Is("Gemm") && n.attrs().Int("transA", 0) == 0) || n.Is("MatMul")) {
    if (dims.size() != 2)
      return std::nullopt;
    const bool rows = WeightChannelAxis(n) == 0;
    f.channels = dims[rows ? 0 : 1];
    f.k = dims[rows ? 1 : 0];
    f.stride_c = rows ? f.k : 1;
    f.stride_k = rows ? 1 : f.channels;
    return f;
  }
  return std::nullopt;
}

class Collector {
public:
  Collector(const Node &n, const Filters &f, int64_t samples, ThreadPool *threads)
      : n_(n), f_(f), threads_(threads), per_sample_(std::clamp<int64_t>(4 * f.k, 1024, 4096) / samples + 1) {
    m_.groups = f.groups;
    m_.k = f.k;
    m_.sum.resize(f.groups * f.k);
    m_.product.resize(f.groups * f.k * f.k);
  }

  void Add(const Tensor &x, int64_t sample) {
    if (x.dtype() != DType::F32 || x.is_splat())
      return;
    n_.Is("Conv") ? AddConv(x, sample) : AddRows(x, sample);
    Flush();
  }
  InputMoments Take() { return std::move(m_); }

private:
  void AddRows(const Tensor &x, int64_t sample) {
    const int64_t rows = x.num_elements() / f_.k, step = std::max<int64_t>(1, rows / per_sample_);
    for (int64_t r = sample * 7919 % step; r < rows; r += step) {
      const float *p = x.data<float>() + r * f_.k;
      batch_.insert(batch_.end(), p, p + f_.k);
      NextRow();
    }
  }

  // Input vectors of the output positions, taps in the padding 0.
  void AddConv(const Tensor &x, int64_t sample) {
    const auto in = x.dims();
    const auto out = n_.result()->type().shape().static_dims();
    const auto w = n_.operand(1)->type().shape().static_dims();
    const int spatial = static_cast<int>(in.size()) - 2;
    if (spatial < 1 || spatial > 2)
      return;
    const auto strides = n_.attrs().Ints("strides"), dilations = n_.attrs().Ints("dilations"),
               pads = n_.attrs().Ints("pads");
    int64_t extent[2] = {1, 1}, o[2] = {1, 1}, kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1},
            pad[2] = {0, 0};
    for (int i = 0; i < spatial; ++i) {
      const int d = 2 - spatial + i;
      extent[d] = in[2 + i];
      o[d] = out[2 + i];
      kernel[d] = w[2 + i];
      stride[d] = strides.empty() ? 1 : strides[i];
      dilation[d] = dilations.empty() ? 1 : dilations[i];
      pad[d] = pads.empty() ? 0 : pads[i];
    }
    const int64_t channels = in[1], positions = in[0] * o[0] * o[1],
                  step = std::max<int64_t>(1, positions / per_sample_);
    for (int64_t at = sample * 7919 % step; at < positions; at += step) {
      const int64_t b = at / (o[0] * o[1]), oy = at / o[1] % o[0], ox = at % o[1];
      for (int64_t c = 0; c < channels; ++c) {
        const float *plane = x.data<float>() + (b * channels + c) * extent[0] * extent[1];
        for (int64_t ky = 0; ky < kernel[0]; ++ky)
          for (int64_t kx = 0; kx < kernel[1]; ++kx) {
            const int64_t iy = oy * stride[0] + ky * dilation[0] - pad[0],
                          ix = ox * stride[1] + kx * dilation[1] - pad[1];
            const bool inside = iy >= 0 && iy < extent[0] && ix >= 0 && ix < extent[1];
            batch_.push_back(inside ? plane[iy * extent[1] + ix] : 0.0f);
          }
      }
      NextRow();
    }
  }

  void NextRow() {
    if (++rows_ == kBatch)
      Flush();
  }

  void Flush() {
    const int64_t k = f_.k, width = f_.groups * k;
    const int64_t rows = rows_;
    auto work = [&](size_t begin, size_t end) {
      for (size_t e = begin; e < end; ++e) {
        const int64_t g = static_cast<int64_t>(e) / k, i = static_cast<int64_t>(e) % k;
        double *product = m_.product.data() + (g * k + i) * k;
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r) {
          const float *x = batch_.data() + r * width + g * k;
          const double xi = x[i];
          if (xi == 0)
            continue;
          sum += xi;
          for (int64_t j = i; j < k; ++j)
            product[j] += xi * x[j];
        }
        m_.sum[e] += sum;
      }
    };
    if (threads_)
      threads_->ParallelFor(static_cast<size_t>(width), 16, work);
    else
      work(0, static_cast<size_t>(width));
    m_.rows += rows;
    rows_ = 0;
    batch_.clear();
  }

  const Node &n_;
  Filters f_;
  ThreadPool *threads_;
  int64_t per_sample_;
  InputMoments m_;
  std::vector<float> batch_; // [rows][groups * k]
  int64_t rows_ = 0;
};

// C = U D U' in place: d gets D, the strict upper triangle of c gets U.
void Factor(std::vector<double> &c, int64_t n, std::vector<double> &d) {
  d.assign(n, 0);
  for (int64_t k = n - 1; k >= 0; --k) {
    d[k] = c[k * n + k];
    if (!(d[k] > 0)) {
      d[k] = 0;
      for (int64_t i = 0; i < k; ++i)
        c[i * n + k] = 0;
      continue;
    }
    for (int64_t i = 0; i < k; ++i)
      c[i * n + k] /= d[k];
    // Rank-one update of what is left.
    for (int64_t i = 0; i < k; ++i) {
      const double u = c[i * n + k] * d[k];
      if (u == 0)
        continue;
      for (int64_t j = i; j < k; ++j)
        c[i * n + j] -= u * c[j * n + k];
    }
  }
}

} // namespace

StatusOr<std::map<const Node *, InputMoments>> CollectMoments(Graph &g, const std::vector<Node *> &nodes,
                                                              const PassContext &ctx) {
  std::map<const Node *, InputMoments> r;
  if (!ctx.samples || ctx.samples->size() == 0)
    return r;
  const int64_t size = ctx.samples->size(), samples = std::min(size, kMomentSamples);
  std::map<const Value *, std::vector<std::unique_ptr<Collector>>> collectors;
  std::vector<std::pair<const Node *, Collector *>> by_node;
  for (const Node *n : nodes) {
    const Tensor *w = n->operand(1) ? n->operand(1)->constant() : nullptr;
    const auto f = w ? FiltersOf(*n, w->dims()) : std::nullopt;
    if (!f || f->k > kMostInputs || f->k < 1 || !n->operand(0)->type().is_static_tensor())
      continue;
    auto &list = collectors[n->operand(0)];
    list.push_back(std::make_unique<Collector>(*n, *f, samples, ctx.threads));
    by_node.emplace_back(n, list.back().get());
  }
  if (by_node.empty())
    return r;
  EvalOptions options;
  options.threads = ctx.threads;
  Interpreter interpreter(g, options);
  int64_t sample = 0;
  interpreter.set_observer([&](const Value &v, const EvalValue &value) {
    const auto found = collectors.find(&v);
    if (found == collectors.end() || !value.tensor())
      return;
    for (auto &c : found->second)
      c->Add(*value.tensor(), sample);
  });
  for (int64_t s = 0; s < samples; ++s) {
    sample = s;
    NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> inputs, ctx.samples->Read(s * size / samples));
    NPUC_RETURN_IF_ERROR(interpreter.Run(std::move(inputs)).status());
  }
  for (auto &[n, c] : by_node)
    r[n] = c->Take();
  return r;
}

void RoundByMoments(const Node &n, const Tensor &w, int axis, int bits, const InputMoments &m, bool mean_matters,
                    QuantizedWeights *q) {
  const auto f = FiltersOf(n, w.dims());
  if (!f || f->k != m.k || f->groups != m.groups || m.rows < 2)
    return;
  const double limit = bits == 4 ? 7 : 127;
  const Elements x(w);
  if (q->codes.is_splat()) {
    const double error = x[0] - q->codes.data<int8_t>()[0] * static_cast<double>(q->quant->scale(0));
    if (std::abs(error) <= 1e-6 * std::abs(x[0])) // nothing to make up for
      return;
    q->codes = q->codes.Expand();
  }
  int8_t *codes = q->codes.mutable_data<int8_t>();
  const int64_t k = m.k;
  std::vector<double> c(k * k), d, remainder(k);
  for (int64_t g = 0; g < m.groups; ++g) {
    double trace = 0;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i; j < k; ++j) {
        const double rows = static_cast<double>(m.rows);
        double v = m.product[(g * k + i) * k + j] / rows;
        if (!mean_matters)
          v -= m.sum[g * k + i] / rows * (m.sum[g * k + j] / rows);
        c[i * k + j] = v;
        if (i == j)
          trace += std::max(v, 0.0);
      }
    // A little of the identity: what few rows leave undetermined is rounded to nearest.
    const double damp = 0.01 * trace / static_cast<double>(k) + 1e-30;
    for (int64_t i = 0; i < k; ++i)
      c[i * k + i] = std::max(c[i * k + i], 0.0) + damp;
    Factor(c, k, d);
    const int64_t per_group = f->channels / m.groups;
    for (int64_t oc = g * per_group; oc < (g + 1) * per_group; ++oc) {
      const double scale = q->quant->scale(axis < 0 ? 0 : oc);
      std::fill(remainder.begin(), remainder.end(), 0.0);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t at = f->Index(oc, i);
        const double code = std::min(std::max(std::nearbyint((x[at] + remainder[i]) / scale), -limit), limit);
        codes[at] = static_cast<int8_t>(code);
        const double e = x[at] - code * scale;
        for (int64_t j = i + 1; j < k; ++j)
          remainder[j] += e * c[i * k + j];
      }
    }
  }
}

std::vector<double> MeanShift(const Node &n, const Tensor &w, const QuantizedWeights &q,
                              const std::vector<double> &means, int64_t groups) {
  const auto f = FiltersOf(n, w.dims());
  std::vector<double> r(f ? f->channels : 0);
  if (!f || f->groups != groups || static_cast<int64_t>(means.size()) != groups * f->k)
    return {};
  const Elements x(w);
  const int8_t *codes = q.codes.data<int8_t>();
  const int64_t per_group = f->channels / groups;
  for (int64_t oc = 0; oc < f->channels; ++oc) {
    const double scale = q.quant->scale(q.quant->per_tensor() ? 0 : oc);
    for (int64_t i = 0; i < f->k; ++i) {
      const int64_t at = f->Index(oc, i);
      r[oc] += (x[at] - codes[q.codes.is_splat() ? 0 : at] * scale) * means[oc / per_group * f->k + i];
    }
  }
  return r;
}

std::vector<double> MeansFromStatistics(const Node &n, const CalibrationTable *table) {
  const Tensor *w = n.operand(1)->constant();
  const auto f = w ? FiltersOf(n, w->dims()) : std::nullopt;
  if (!table || !f)
    return {};
  // The float that stands behind integers by now.
  const Value *x = n.operand(0);
  const TensorStatistics *t = table->Find(x->name());
  while (!t && x->def() && (IsNpucOp(*x->def(), "Dequantize") || IsNpucOp(*x->def(), "Quantize"))) {
    x = x->def()->operand(0);
    t = table->Find(x->name());
  }
  if (!t)
    return {};
  const int64_t taps = n.Is("Conv") ? NumElements(w->dims().drop_front(2)) : 1, inputs = f->groups * f->k / taps;
  if (t->channels.size() != inputs || t->channels.axis != (n.Is("Conv") ? 1 : n.operand(0)->type().shape().rank() - 1))
    return {};
  std::vector<double> r;
  for (int64_t c = 0; c < inputs; ++c)
    r.insert(r.end(), taps, t->channels.Mean(c));
  return r;
}

} // namespace npuc
