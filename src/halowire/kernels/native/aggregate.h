// CSR aggregation of one level: out[i] (+)= sum over e in row i of weight[e] * x[indices[e]].
#pragma once
#include "kernels.h"
#include "simd.h"
#include "split.h"

namespace {

using halowire::Aggregate;

constexpr int kBlock = 8;      // vectors of one output row kept in registers
constexpr int kAhead = 16;     // edges between a row's prefetch and its use
constexpr int64_t kTask = 16;  // tasks per thread: more balance better, fewer cost less

// N vectors of columns starting at `column`; the last one is partial when Tail.
template <class Index, bool Weighted, int N, bool Tail>
void block(const Aggregate& a, int64_t column, int64_t begin, int64_t end) {
  const Index* const indices = static_cast<const Index*>(a.indices);
  const float* const x = a.x + column;
  const int64_t last = a.indptr[a.rows] - 1;
  const Part part(static_cast<int>(a.cols - column) - (N - 1) * W);
  constexpr int full = Tail ? N - 1 : N;
  for (int64_t row = begin; row < end; ++row) {
    float* const out = a.out + row * a.out_stride + column;
    vf sums[N];
    for (int j = 0; j < N; ++j) sums[j] = vf{};
    if (a.accumulate) {
      for (int j = 0; j < full; ++j) sums[j] = load(out + j * W);
      if (Tail) sums[N - 1] = part.load(out + (N - 1) * W);
    }
    const int64_t stop = a.indptr[row + 1];
    for (int64_t e = a.indptr[row]; e < stop; ++e) {
      const int64_t soon = e + kAhead < last ? e + kAhead : last;
      const float* const next = x + static_cast<int64_t>(indices[soon]) * a.x_stride;
      for (int j = 0; j < N * W; j += 16) __builtin_prefetch(next + j);
      const float* const source = x + static_cast<int64_t>(indices[e]) * a.x_stride;
      if (Weighted) {
        const vf weight = splat(a.weight[e]);
        for (int j = 0; j < full; ++j) sums[j] += weight * load(source + j * W);
        if (Tail) sums[N - 1] += weight * part.load(source + (N - 1) * W);
      } else {
        for (int j = 0; j < full; ++j) sums[j] += load(source + j * W);
        if (Tail) sums[N - 1] += part.load(source + (N - 1) * W);
      }
    }
    for (int j = 0; j < full; ++j) store(out + j * W, sums[j]);
    if (Tail) part.store(out + (N - 1) * W, sums[N - 1]);
  }
}

template <class Index, bool Weighted, int N = kBlock>
void block_of(const Aggregate& a, int64_t column, int64_t begin, int64_t end) {
  const int64_t left = a.cols - column;
  if (N == 1 || left > (N - 1) * W) {
    if (left >= N * W) block<Index, Weighted, N, false>(a, column, begin, end);
    else block<Index, Weighted, N, true>(a, column, begin, end);
  } else {
    block_of<Index, Weighted, (N > 1 ? N - 1 : 1)>(a, column, begin, end);
  }
}

// Columns outermost: all threads gather from the same narrow slab of x, more of which stays in the shared cache.
void aggregate(const Aggregate& a) {
  const int64_t slabs = (a.cols + kBlock * W - 1) / (kBlock * W);
  const int64_t chunks = a.threads > 1 ? a.threads * kTask : 1;
  const int64_t tasks = slabs * chunks;
  const auto run = a.wide_indices ? (a.weight ? block_of<int64_t, true> : block_of<int64_t, false>)
                                  : (a.weight ? block_of<int32_t, true> : block_of<int32_t, false>);
#pragma omp parallel for schedule(dynamic, 1) num_threads(a.threads) if (a.threads > 1)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t chunk = task % chunks;
    run(a, task / chunks * kBlock * W, split_rows(a.indptr, a.rows, chunk, chunks),
        split_rows(a.indptr, a.rows, chunk + 1, chunks));
  }
}

}  // namespace
