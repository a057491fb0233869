// Graph attention of one level: softmax over each row's edges and the weighted sum of their sources, both ways.
//
// Edge e from j to i has, in every head, the score s = leaky_relu(src_j + dst_i) and the weight a = exp(s - max_i) / sum_i.
// Backward, with d_e = <grad_i, x_j>, D_i = sum of a d = <grad_i, out_i> and leaky_relu's slope l_e (1 or `slope`):
//
//   grad of x_j   = sum of a grad_i                       (+ src_grad_j att_src + dst_grad_j att_dst)
//   grad of src_j = sum of a l (d - D_i) = <x_j, sum of a l grad_i> - sum of a l D_i
//   grad of dst_i = sum of a l (d - D_i) = (1 - slope) (<grad_i, sum over positive e of a x_j> - D_i sum over them of a)
//
// because the sum of a (d - D_i) over a row is zero. So no value of an edge is stored, and no dot product is taken per edge.
#pragma once
#include <vector>

#include "exp.h"
#include "kernels.h"
#include "split.h"
#include "weigh.h"

namespace {

constexpr int kMostHeads = 64;
constexpr float kNever = -1e30f;  // the score of an edge that does not exist

using halowire::Attend;
using halowire::AttendSources;
using halowire::AttendTargets;

// What one thread needs for a row: values by edge and head, where the edges' rows are, and a row of x.
class Scratch {
 public:
  Scratch(int64_t heads, int64_t cols) : row_(static_cast<size_t>(heads * cols + W)) {
    if (heads == 1 || cols >= W || heads > W) return;
    for (int64_t at = 0; at < heads * cols; at += W) {
      vi lanes;
      for (int i = 0; i < W; ++i) lanes[i] = static_cast<int32_t>(at + i < heads * cols ? (at + i) / cols : 0);
      heads_.push_back(lanes);
    }
  }
  // Four arrays of degree * heads floats, each with W more.
  void reserve(int64_t degree, int64_t heads) {
    const size_t size = static_cast<size_t>(degree * heads + W);
    if (offsets_.size() < static_cast<size_t>(degree)) offsets_.resize(static_cast<size_t>(degree) * 2);
    if (size <= arrays_[0].size()) return;
    for (auto& array : arrays_) array.resize(size * 2);
  }
  float* array(int i) { return arrays_[i].data(); }
  int64_t* offsets() { return offsets_.data(); }
  float* row() { return row_.data(); }
  const vi* heads() const { return heads_.empty() ? nullptr : heads_.data(); }

 private:
  std::vector<float> arrays_[4], row_;
  std::vector<int64_t> offsets_;
  std::vector<vi> heads_;
};

// Vectors over values [edge, head] see the heads in a pattern that repeats every few vectors: every one where the heads
// divide W. A Pattern holds one value per head, laid out like that.
template <int H>
struct Pattern {
  static constexpr bool one = H != 0;
  vf values[one ? 1 : kMostHeads];
  int64_t heads;
  int64_t period() const { return one ? 1 : heads; }
  explicit Pattern(int64_t n, float value = 0) : heads(n) {
    for (int64_t k = 0; k < period(); ++k) values[k] = splat(value);
  }
  Pattern(int64_t n, const float* source) : heads(n) {
    for (int64_t i = 0; i < period() * W; ++i) values[i / W][i % W] = source[i % heads];
  }
  // Folds the lanes of each head into to[head].
  template <class F>
  void fold(float* to, const F& join) const {
    for (int64_t h = 0; h < heads; ++h) to[h] = values[0][h % W];
    for (int64_t h = W; h < heads; ++h) to[h] = values[h / W][h % W];
    for (int64_t i = heads; i < period() * W; ++i) to[i % heads] = join(to[i % heads], values[i / W][i % W]);
  }
};

// Calls f(place, k) for every vector over `count` values; k is its place in the pattern.
template <int H, class F>
inline void vectors(int64_t count, int64_t heads, const F& f) {
  int64_t k = 0;
  for (int64_t at = 0; at < count; at += W) {
    f(at, k);
    if (H == 0) k = k + 1 == heads ? 0 : k + 1;
  }
}

template <int H>
inline void copy(float* to, const float* from, int64_t heads) {
  for (int64_t h = 0; h < (H ? H : heads); ++h) to[h] = from[h];
}

// Where the rows of the edges are; the first ones are fetched while the scores are computed.
template <class Index>
void find_rows(const Index* indices, int64_t degree, const float* x, int64_t stride, int64_t width, int64_t* offsets) {
  for (int64_t e = 0; e < degree; ++e) {
    offsets[e] = static_cast<int64_t>(indices[e]) * stride;
    if (e < kSoon)
      for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(x + offsets[e] + j);
  }
}

inline vf larger(vf a, vf b) { return a > b ? a : b; }

template <class Index, int H>
void attend_row(const Attend& a, int64_t row, Scratch& s) {
  const int64_t heads = a.heads, begin = a.indptr[row], degree = a.indptr[row + 1] - begin, count = degree * heads;
  const Index* const indices = static_cast<const Index*>(a.indices) + begin;
  float* const node = a.nodes + row * 4 * heads;
  float *const largest = node + heads, *const inverse = largest + heads, *const share = inverse + heads;
  s.reserve(degree, heads);
  float *const first = s.array(0), *const second = s.array(1);
  find_rows(indices, degree, a.x, a.x_stride, heads * a.cols, s.offsets());
  for (int64_t e = 0; e < degree; ++e) copy<H>(first + e * heads, a.src + static_cast<int64_t>(indices[e]) * heads, heads);
  store(first + count, splat(kNever));
  const Pattern<H> own(heads, node);
  Pattern<H> most(heads, kNever), total(heads), chosen(heads);
  vectors<H>(count, heads, [&](int64_t at, int64_t k) {
    const vf value = load(first + at) + own.values[k], score = larger(value, value * a.slope);
    store(first + at, score);
    most.values[k] = larger(score, most.values[k]);
  });
  store(first + count, splat(kNever));  // a slope of 0 has raised it
  most.fold(largest, [](float p, float q) { return p > q ? p : q; });
  const Pattern<H> top(heads, largest);
  vectors<H>(count, heads, [&](int64_t at, int64_t k) {
    const vf score = load(first + at), power = exp(score - top.values[k]);
    const vf positive = select(reinterpret_cast<vi>(score > 0.0f), power);
    store(first + at, power);
    store(second + at, positive);
    total.values[k] += power;
    chosen.values[k] += positive;
  });
  const auto add = [](float p, float q) { return p + q; };
  total.fold(inverse, add);
  chosen.fold(share, add);
  for (int64_t h = 0; h < heads; ++h) {
    inverse[h] = degree ? 1.0f / inverse[h] : 0.0f;
    largest[h] = degree ? largest[h] : 0.0f;
    share[h] *= inverse[h];
  }
  const Pattern<H> scale(heads, inverse);
  vectors<H>(count, heads, [&](int64_t at, int64_t k) {
    store(first + at, load(first + at) * scale.values[k]);
    store(second + at, load(second + at) * scale.values[k]);
  });
  float* const positive = a.positive == nullptr ? nullptr : a.positive + row * a.positive_stride;
  weigh({a.x, s.offsets(), degree, first, positive ? second : nullptr, heads, a.cols, a.out + row * a.out_stride, positive},
        s.heads());
}

template <class Index, int H>
void sources_row(const AttendSources& a, int64_t row, Scratch& s) {
  const int64_t heads = a.heads, begin = a.indptr[row], degree = a.indptr[row + 1] - begin, count = degree * heads;
  const Index* const indices = static_cast<const Index*>(a.indices) + begin;
  s.reserve(degree, heads);
  float *const first = s.array(0), *const second = s.array(1), *const largest = s.array(2), *const dot = s.array(3);
  find_rows(indices, degree, a.grad, a.grad_stride, heads * a.cols, s.offsets());
  for (int64_t e = 0; e < degree; ++e) {
    const float* const node = a.back + static_cast<int64_t>(indices[e]) * 4 * heads;
    copy<H>(first + e * heads, node, heads);
    copy<H>(largest + e * heads, node + heads, heads);
    copy<H>(second + e * heads, node + 2 * heads, heads);
    copy<H>(dot + e * heads, node + 3 * heads, heads);
  }
  // An edge that does not exist has weight 0: exp(own - huge), since exp(own) * 0 is no number where exp overflows.
  for (float* const array : {first, second, dot}) store(array + count, vf{});
  store(largest + count, splat(-kNever));
  const Pattern<H> own(heads, a.src + row * heads);
  Pattern<H> total(heads);
  vectors<H>(count, heads, [&](int64_t at, int64_t k) {
    const vf value = load(first + at) + own.values[k];
    const vf weight = exp(larger(value, value * a.slope) - load(largest + at)) * load(second + at);
    const vf sloped = value > 0.0f ? weight : weight * a.slope;
    store(first + at, weight);
    store(second + at, sloped);
    total.values[k] -= sloped * load(dot + at);
  });
  float* const src_grad = a.src_grad + row * heads;
  total.fold(src_grad, [](float p, float q) { return p + q; });
  float* const x_grad = a.x_grad + row * a.x_grad_stride;
  weigh({a.grad, s.offsets(), degree, first, second, heads, a.cols, x_grad, s.row()}, s.heads());
  const float* const x = a.x + row * a.x_stride;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t from = h * a.cols;
    vf dots = {};
    columns(a.cols, [&](int64_t j, auto at) { dots += at.load(s.row() + from + j) * at.load(x + from + j); });
    const float grad = src_grad[h] += sum(dots), own_grad = a.dst_grad == nullptr ? 0.0f : a.dst_grad[row * heads + h];
    columns(a.cols, [&](int64_t j, auto at) {
      vf to = at.load(x_grad + from + j) + grad * at.load(a.att_src + from + j);
      if (a.dst_grad != nullptr) to += own_grad * at.load(a.att_dst + from + j);
      at.store(x_grad + from + j, to);
    });
  }
}

// Calls run(args, row, scratch) for all rows, by equal work.
template <class Args>
void over_rows(const Args& a, void (*run)(const Args&, int64_t, Scratch&)) {
  const int64_t chunks = a.threads > 1 ? a.threads * 16 : 1;
#pragma omp parallel num_threads(a.threads) if (a.threads > 1)
  {
    Scratch scratch(a.heads, a.cols);
#pragma omp for schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t end = split_rows(a.indptr, a.rows, chunk + 1, chunks);
      for (int64_t row = split_rows(a.indptr, a.rows, chunk, chunks); row < end; ++row) run(a, row, scratch);
    }
  }
}

void attend(const Attend& a) {
  if (a.wide_indices) return over_rows(a, attend_row<int64_t, 0>);
  switch (a.heads) {
    case 1: return over_rows(a, attend_row<int32_t, 1>);
    case 2: return over_rows(a, attend_row<int32_t, 2>);
    case 4: return over_rows(a, attend_row<int32_t, 4>);
    case 8: return over_rows(a, attend_row<int32_t, W % 8 ? 0 : 8>);
    default: return over_rows(a, attend_row<int32_t, 0>);
  }
}

void attend_sources(const AttendSources& a) {
  if (a.wide_indices) return over_rows(a, sources_row<int64_t, 0>);
  switch (a.heads) {
    case 1: return over_rows(a, sources_row<int32_t, 1>);
    case 2: return over_rows(a, sources_row<int32_t, 2>);
    case 4: return over_rows(a, sources_row<int32_t, 4>);
    case 8: return over_rows(a, sources_row<int32_t, W % 8 ? 0 : 8>);
    default: return over_rows(a, sources_row<int32_t, 0>);
  }
}

void attend_targets(const AttendTargets& a) {
#pragma omp parallel for schedule(static) num_threads(a.threads) if (a.threads > 1)
  for (int64_t row = 0; row < a.rows; ++row) {
    const float* const node = a.nodes + row * 4 * a.heads;
    float* const back = a.back + row * 4 * a.heads;
    for (int64_t h = 0; h < a.heads; ++h) {
      const float* const grad = a.grad + row * a.grad_stride + h * a.cols;
      const float* const out = a.out + row * a.out_stride + h * a.cols;
      const float* const positive = a.positive + row * a.positive_stride + h * a.cols;
      vf all = {}, part = {};
      columns(a.cols, [&](int64_t j, auto at) {
        const vf g = at.load(grad + j);
        all += g * at.load(out + j);
        part += g * at.load(positive + j);
      });
      const float dot = sum(all);
      for (int k = 0; k < 3; ++k) back[k * a.heads + h] = node[k * a.heads + h];
      back[3 * a.heads + h] = dot;
      a.dst_grad[row * a.heads + h] = (1 - a.slope) * (sum(part) - dot * node[3 * a.heads + h]);
    }
  }
}

}  // namespace
