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
#include <limits>
#include <vector>

#include "exp.h"
#include "kernels.h"
#include "split.h"
#include "weigh.h"

namespace {

using halowire::Attend;
using halowire::AttendSources;
using halowire::AttendTargets;

// What one thread needs for a row: values by edge and head, a row of x, and which head each column belongs to.
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
  // Four arrays of `count` floats, each with W more that may be read.
  void reserve(int64_t count) {
    const size_t size = static_cast<size_t>(count + W);
    if (size <= size_) return;
    size_ = size * 2;
    for (auto& array : arrays_) array.assign(size_, 0.0f);
  }
  float* array(int i) { return arrays_[i].data(); }
  float* row() { return row_.data(); }
  const vi* heads() const { return heads_.empty() ? nullptr : heads_.data(); }

 private:
  std::vector<float> arrays_[4], row_;
  std::vector<vi> heads_;
  size_t size_ = 0;
};

// The first rows that `weigh` reads are fetched while the scores are computed.
template <class Index>
inline void fetch_row(const float* x, int64_t stride, Index index, int64_t edge, int64_t width) {
  if (edge >= kSoon) return;
  const float* const row = x + static_cast<int64_t>(index) * stride;
  for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(row + j);
}

template <class Index, int H>
void attend_row(const Attend& a, int64_t row, Scratch& s) {
  const int64_t heads = H ? H : a.heads, begin = a.indptr[row], degree = a.indptr[row + 1] - begin;
  const Index* const indices = static_cast<const Index*>(a.indices) + begin;
  float* const node = a.nodes + row * 4 * heads;
  float* const __restrict largest = node + heads;
  float* const __restrict inverse = largest + heads;
  float* const __restrict share = inverse + heads;
  s.reserve(degree * heads);
  float* const __restrict first = s.array(0);
  float* const __restrict second = s.array(1);
  for (int64_t h = 0; h < heads; ++h) largest[h] = -std::numeric_limits<float>::infinity();
  for (int64_t e = 0; e < degree; ++e) {
    fetch_row(a.x, a.x_stride, indices[e], e, heads * a.cols);
    const float* const src = a.src + static_cast<int64_t>(indices[e]) * heads;
    for (int64_t h = 0; h < heads; ++h) {
      const float sum = src[h] + node[h];
      const float score = sum > 0 ? sum : sum * a.slope;
      first[e * heads + h] = score;
      largest[h] = score > largest[h] ? score : largest[h];
    }
  }
  for (int64_t e = 0; e < degree; ++e)
    for (int64_t h = 0; h < heads; ++h) second[e * heads + h] = first[e * heads + h] - largest[h];
  for (int64_t at = 0; at < degree * heads; at += W) {
    const vf power = exp(load(second + at));
    store(second + at, select(reinterpret_cast<vi>(load(first + at) > 0.0f), power));
    store(first + at, power);
  }
  for (int64_t h = 0; h < heads; ++h) inverse[h] = share[h] = 0;
  for (int64_t e = 0; e < degree; ++e)
    for (int64_t h = 0; h < heads; ++h) inverse[h] += first[e * heads + h], share[h] += second[e * heads + h];
  for (int64_t h = 0; h < heads; ++h) {
    inverse[h] = degree ? 1.0f / inverse[h] : 0.0f;
    largest[h] = degree ? largest[h] : 0.0f;
    share[h] *= inverse[h];
  }
  for (int64_t e = 0; e < degree; ++e)
    for (int64_t h = 0; h < heads; ++h) first[e * heads + h] *= inverse[h], second[e * heads + h] *= inverse[h];
  float* const positive = a.positive == nullptr ? nullptr : a.positive + row * a.positive_stride;
  weigh<Index>({indices, degree, a.x, a.x_stride, first, positive ? second : nullptr, heads, a.cols,
                a.out + row * a.out_stride, positive},
               s.heads());
}

template <class Index, int H>
void sources_row(const AttendSources& a, int64_t row, Scratch& s) {
  const int64_t heads = H ? H : a.heads, begin = a.indptr[row], degree = a.indptr[row + 1] - begin;
  const Index* const indices = static_cast<const Index*>(a.indices) + begin;
  const float* const src = a.src + row * heads;
  s.reserve(degree * heads);
  float* const __restrict first = s.array(0);
  float* const __restrict second = s.array(1);
  float* const __restrict slope = s.array(2);
  float* const __restrict dot = s.array(3);
  for (int64_t e = 0; e < degree; ++e) {
    fetch_row(a.grad, a.grad_stride, indices[e], e, heads * a.cols);
    const float* const node = a.back + static_cast<int64_t>(indices[e]) * 4 * heads;
    for (int64_t h = 0; h < heads; ++h) {
      const float sum = src[h] + node[h], l = sum > 0 ? 1.0f : a.slope;
      first[e * heads + h] = sum * l - node[heads + h];
      second[e * heads + h] = node[2 * heads + h];
      slope[e * heads + h] = l;
      dot[e * heads + h] = node[3 * heads + h];
    }
  }
  for (int64_t at = 0; at < degree * heads; at += W) {
    const vf weight = exp(load(first + at)) * load(second + at), sloped = weight * load(slope + at);
    store(first + at, weight);
    store(second + at, sloped);
    store(dot + at, sloped * load(dot + at));
  }
  float* const __restrict src_grad = a.src_grad + row * heads;
  for (int64_t h = 0; h < heads; ++h) src_grad[h] = 0;
  for (int64_t e = 0; e < degree; ++e)
    for (int64_t h = 0; h < heads; ++h) src_grad[h] -= dot[e * heads + h];
  float* const x_grad = a.x_grad + row * a.x_grad_stride;
  weigh<Index>({indices, degree, a.grad, a.grad_stride, first, second, heads, a.cols, x_grad, s.row()}, s.heads());
  const float* const x = a.x + row * a.x_stride;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t from = h * a.cols;
    vf total = {};
    columns(a.cols, [&](int64_t j, auto at) { total += at.load(s.row() + from + j) * at.load(x + from + j); });
    const float grad = src_grad[h] += sum(total), own = a.dst_grad == nullptr ? 0.0f : a.dst_grad[row * heads + h];
    columns(a.cols, [&](int64_t j, auto at) {
      vf to = at.load(x_grad + from + j) + grad * at.load(a.att_src + from + j);
      if (a.dst_grad != nullptr) to += own * at.load(a.att_dst + from + j);
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
    case 8: return over_rows(a, attend_row<int32_t, 8>);
    default: return over_rows(a, attend_row<int32_t, 0>);
  }
}

void attend_sources(const AttendSources& a) {
  if (a.wide_indices) return over_rows(a, sources_row<int64_t, 0>);
  switch (a.heads) {
    case 1: return over_rows(a, sources_row<int32_t, 1>);
    case 2: return over_rows(a, sources_row<int32_t, 2>);
    case 4: return over_rows(a, sources_row<int32_t, 4>);
    case 8: return over_rows(a, sources_row<int32_t, 8>);
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
