// LayerNorm, ReLU and dropout of one level, fused: one pass over the rows forward, one backward.
#pragma once
#include <cmath>

#include "kernels.h"
#include "random.h"
#include "simd.h"

namespace {

using halowire::Activate;

// What dropout leaves of a row's columns: the scale where an element stays, zero where it goes.
struct Dropout {
  vu counter, high, threshold;
  vf scale;
  Dropout(const Activate& a, int64_t row) {
    const uint64_t key = a.drop ? row_key(a.stream, a.ids[row]) : 0;
    counter = splat(static_cast<uint32_t>(key)) + lanes() * kGolden32;
    high = splat(static_cast<uint32_t>(key >> 32));
    threshold = splat(a.threshold);
    scale = splat(a.scale);
  }
  vf factor(int64_t column) const {
    const vu bits = bits32<vu>(counter + static_cast<uint32_t>(column) * kGolden32, high);
    return select(reinterpret_cast<vi>(bits >= threshold), scale);
  }
};

template <bool Norm, bool Relu, bool Drop>
void forward_row(const Activate& a, int64_t row) {
  const float* const x = a.x + row * a.x_stride;
  float* const out = a.out + row * a.out_stride;
  const Dropout dropout(a, row);
  float mean = 0, rstd = 1;
  if (Norm) {
    vf total = {};
    columns(a.cols, [&](int64_t j, auto at) { total += at.load(x + j); });
    mean = sum(total) / static_cast<float>(a.cols);
    vf square = {};
    columns(a.cols, [&](int64_t j, auto at) {
      const vf centred = at.keep(at.load(x + j) - mean);
      square += centred * centred;
    });
    rstd = 1.0f / std::sqrt(sum(square) / static_cast<float>(a.cols) + a.eps);
    a.stats[2 * row] = mean;
    a.stats[2 * row + 1] = rstd;
  }
  columns(a.cols, [&](int64_t j, auto at) {
    vf y = at.load(x + j);
    if (Norm) y = (y - mean) * rstd * at.load(a.gamma + j) + at.load(a.beta + j);
    if (Relu) y = select(~reinterpret_cast<vi>(y < vf{}), y);  // keeps NaN, so that divergence shows
    if (Drop) y *= dropout.factor(j);
    at.store(out + j, y);
  });
}

// With g = grad through dropout and ReLU, t = g gamma and z = (x - mean) rstd:
// grad_x = rstd (t - mean(t) - z mean(t z)), grad_gamma += g z, grad_beta += g.
template <bool Norm, bool Relu, bool Drop>
void backward_row(const Activate& a, int64_t row, float* grad_gamma, float* grad_beta) {
  const float* const x = a.x + row * a.x_stride;
  const float* const grad = a.grad + row * a.grad_stride;
  float* const out = a.out + row * a.out_stride;
  const Dropout dropout(a, row);
  const float mean = Norm ? a.stats[2 * row] : 0.0f;
  const float rstd = Norm ? a.stats[2 * row + 1] : 1.0f;
  vf total = {}, product = {};
  columns(a.cols, [&](int64_t j, auto at) {
    vf g = at.load(grad + j);
    if (Drop) g *= dropout.factor(j);
    const vf z = (at.load(x + j) - mean) * rstd;
    const vf gamma = Norm ? at.load(a.gamma + j) : vf{};
    if (Relu) {
      const vf y = Norm ? z * gamma + at.load(a.beta + j) : at.load(x + j);
      g = select(reinterpret_cast<vi>(y > vf{}), g);
    }
    if (Norm) {
      at.store(grad_gamma + j, at.load(grad_gamma + j) + g * z);
      at.store(grad_beta + j, at.load(grad_beta + j) + g);
      g *= gamma;
      total += g;
      product += g * z;
    }
    at.store(out + j, g);
  });
  if (!Norm) return;
  const float mean_total = sum(total) / static_cast<float>(a.cols);
  const float mean_product = sum(product) / static_cast<float>(a.cols);
  columns(a.cols, [&](int64_t j, auto at) {
    const vf z = (at.load(x + j) - mean) * rstd;
    at.store(out + j, (at.load(out + j) - mean_total - z * mean_product) * rstd);
  });
}

template <bool Norm, bool Relu, bool Drop>
void forward_rows(const Activate& a, int64_t begin, int64_t end, float*) {
  for (int64_t row = begin; row < end; ++row) forward_row<Norm, Relu, Drop>(a, row);
}

template <bool Norm, bool Relu, bool Drop>
void backward_rows(const Activate& a, int64_t begin, int64_t end, float* partial) {
  if (Norm)
    for (int64_t j = 0; j < 2 * a.cols; ++j) partial[j] = 0;
  for (int64_t row = begin; row < end; ++row)
    backward_row<Norm, Relu, Drop>(a, row, partial, partial + a.cols);
}

using Rows = void (*)(const Activate&, int64_t, int64_t, float*);

// Blocks of rows depend on the number of rows alone, so that no sum depends on the number of threads.
void over_blocks(const Activate& a, Rows run) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(a.threads) if (a.threads > 1)
  for (int64_t b = 0; b < a.blocks; ++b)
    run(a, a.rows * b / a.blocks, a.rows * (b + 1) / a.blocks, a.partial + b * 2 * a.cols);
}

void activate(const Activate& a) {
  static constexpr Rows table[2][2][2] = {
      {{forward_rows<0, 0, 0>, forward_rows<0, 0, 1>}, {forward_rows<0, 1, 0>, forward_rows<0, 1, 1>}},
      {{forward_rows<1, 0, 0>, forward_rows<1, 0, 1>}, {forward_rows<1, 1, 0>, forward_rows<1, 1, 1>}}};
  over_blocks(a, table[a.gamma != nullptr][a.relu][a.drop]);
}

void activate_backward(const Activate& a) {
  static constexpr Rows table[2][2][2] = {
      {{backward_rows<0, 0, 0>, backward_rows<0, 0, 1>}, {backward_rows<0, 1, 0>, backward_rows<0, 1, 1>}},
      {{backward_rows<1, 0, 0>, backward_rows<1, 0, 1>}, {backward_rows<1, 1, 0>, backward_rows<1, 1, 1>}}};
  over_blocks(a, table[a.gamma != nullptr][a.relu][a.drop]);
  if (a.gamma == nullptr) return;
  for (int64_t j = 0; j < 2 * a.cols; ++j) a.grad_affine[j] = 0;
  for (int64_t b = 0; b < a.blocks; ++b)
    for (int64_t j = 0; j < 2 * a.cols; ++j) a.grad_affine[j] += a.partial[b * 2 * a.cols + j];
}

}  // namespace
