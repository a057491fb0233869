// Attention-weighted sums of gathered rows: out[h, c] = sum over e of weight[e, h] * x[offsets[e] + h * cols + c].
#pragma once
#include "simd.h"

namespace {

constexpr int kVectors = W == 16 ? 8 : 4;  // of one output row in registers, twice
constexpr int64_t kSoon = 8;               // edges between a row's prefetch and its use

// One destination row. `second` and `out_second` may be null: then there is one sum instead of two.
struct Weigh {
  const float* x;
  const int64_t* offsets;  // [degree]
  int64_t degree;
  const float* first;  // [degree, heads] and W readable floats more
  const float* second;
  int64_t heads, cols;
  float* out_first;  // [heads * cols]
  float* out_second;
};

// N vectors from `column`; the last has `count` columns. Packed: a vector spans several heads, `head` maps its lanes to
// them; else all columns belong to head `only`.
template <bool Packed, bool Both, int N, bool Tail>
void weigh_block(const Weigh& w, int64_t column, int count, int64_t only, const vi* head) {
  const Part part(count);
  const float* const x = w.x + column;
  constexpr int full = Tail ? N - 1 : N;
  vf a[N], b[N];
  for (int j = 0; j < N; ++j) a[j] = b[j] = vf{};
  for (int64_t e = 0; e < w.degree; ++e) {
    if (e + kSoon < w.degree) {
      const float* const next = x + w.offsets[e + kSoon];
      for (int j = 0; j < N * W; j += 16) __builtin_prefetch(next + j);
    }
    const float* const source = x + w.offsets[e];
    const vf one = Packed ? load(w.first + e * w.heads) : splat(w.first[e * w.heads + only]);
    const vf two = !Both ? vf{} : Packed ? load(w.second + e * w.heads) : splat(w.second[e * w.heads + only]);
    for (int j = 0; j < N; ++j) {
      const vf value = j < full ? load(source + j * W) : part.load(source + j * W);
      a[j] += (Packed ? permute(one, head[j]) : one) * value;
      if (Both) b[j] += (Packed ? permute(two, head[j]) : two) * value;
    }
  }
  for (int j = 0; j < N; ++j) {
    float* const to = w.out_first + column + j * W;
    if (j < full) store(to, a[j]);
    else part.store(to, a[j]);
    if (!Both) continue;
    if (j < full) store(w.out_second + column + j * W, b[j]);
    else part.store(w.out_second + column + j * W, b[j]);
  }
}

template <bool Packed, bool Both, int N = kVectors>
void weigh_left(const Weigh& w, int64_t column, int64_t left, int64_t only, const vi* head) {
  if (N > 1 && left <= (N - 1) * W) return weigh_left<Packed, Both, (N > 1 ? N - 1 : 1)>(w, column, left, only, head);
  const int count = static_cast<int>(left - (N - 1) * W);
  if (count >= W) weigh_block<Packed, Both, N, false>(w, column, W, only, head);
  else weigh_block<Packed, Both, N, true>(w, column, count, only, head);
}

template <bool Both>
void weigh_row(const Weigh& w, const vi* head) {
  constexpr int64_t step = kVectors * W;
  if (head != nullptr) {
    for (int64_t at = 0; at < w.heads * w.cols; at += step)
      weigh_left<true, Both>(w, at, w.heads * w.cols - at, 0, head + at / W);
    return;
  }
  for (int64_t h = 0; h < w.heads; ++h)
    for (int64_t at = 0; at < w.cols; at += step)
      weigh_left<false, Both>(w, h * w.cols + at, w.cols - at, h, nullptr);
}

void weigh(const Weigh& w, const vi* head) {
  if (w.second != nullptr) weigh_row<true>(w, head);
  else weigh_row<false>(w, head);
}

}  // namespace
