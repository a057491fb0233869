// CSR aggregation of packed rows, of one level: out[i] (+)= sum over e in row i of weight[e] * decode(row indices[e]).
// With decode = lo + q step, the sum of weight lo is one number per row, and weight step meets the codes in registers.
#pragma once
#include "kernels.h"
#include "simd.h"
#include "split.h"
#include "unpack.h"

namespace {

using halowire::AggregatePacked;

constexpr int kPackedBlock = 8;       // vectors of one output row kept in registers
constexpr int kPackedAhead = 16;      // edges between a packed row's prefetch and its use
constexpr int64_t kPackedTasks = 16;  // tasks per thread

// This file is compiled without contraction, for the codes' sake; here a fused operation is welcome.
inline vf multiply_add(vf a, vf b, vf c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

template <int Bits, class At>
inline vf add_packed(vf sum, const uint8_t* payload, int64_t column, const uint8_t* end, const At& at, vf factor) {
  if constexpr (Bits == 1) return sum + choose(payload, column, end, at, vf{}, factor);
  else return multiply_add(codes<Bits>(payload, column, end, at), factor, sum);
}

// N vectors of one output row from `column` on; the last one is partial when Tail.
template <int Bits, class Index, int N, bool Tail>
void packed_block(const AggregatePacked& a, int64_t row, int64_t column) {
  const Index* const indices = static_cast<const Index*>(a.indices);
  const uint8_t* const end = a.data + a.data_bytes;
  const int64_t last = a.indptr[a.rows] - 1, stop = a.indptr[row + 1];
  const Part part(static_cast<int>(a.cols - column) - (N - 1) * W);
  constexpr int full = Tail ? N - 1 : N;
  float* const out = a.out + row * a.out_stride + column;
  vf sums[N];
  for (int j = 0; j < N; ++j) sums[j] = vf{};
  if (a.accumulate) {
    for (int j = 0; j < full; ++j) sums[j] = load(out + j * W);
    if (Tail) sums[N - 1] = part.load(out + (N - 1) * W);
  }
  float base = 0;
  for (int64_t e = a.indptr[row]; e < stop; ++e) {
    if (column == 0) {
      const int64_t soon = e + kPackedAhead < last ? e + kPackedAhead : last;
      const uint8_t* const next = a.data + static_cast<int64_t>(indices[soon]) * a.row_bytes;
      for (int64_t b = 0; b < a.row_bytes + 63; b += 64)
        __builtin_prefetch(next + (b < a.row_bytes ? b : a.row_bytes - 1));
    }
    const uint8_t* p = a.data + static_cast<int64_t>(indices[e]) * a.row_bytes;
    float factor = a.weight ? a.weight[e] : 1.0f;
    if constexpr (Bits < 16) {
      const float lo = widened(read_half(p)), hi = widened(read_half(p + 2));
      base += factor * lo;
      factor *= step_of<Bits>(lo, hi);
      p += 4;
    }
    const vf factors = splat(factor);
    p += column * Bits / 8;
    for (int j = 0; j < full; ++j) sums[j] = add_packed<Bits>(sums[j], p, j * W, end, Full{}, factors);
    if (Tail) sums[N - 1] = add_packed<Bits>(sums[N - 1], p, (N - 1) * W, end, part, factors);
  }
  for (int j = 0; j < full; ++j) store(out + j * W, sums[j] + base);
  if (Tail) part.store(out + (N - 1) * W, sums[N - 1] + base);
}

template <int Bits, class Index, int N = kPackedBlock>
void packed_block_of(const AggregatePacked& a, int64_t row, int64_t column) {
  const int64_t left = a.cols - column;
  if (N == 1 || left > (N - 1) * W) {
    if (left >= N * W) packed_block<Bits, Index, N, false>(a, row, column);
    else packed_block<Bits, Index, N, true>(a, row, column);
  } else {
    packed_block_of<Bits, Index, (N > 1 ? N - 1 : 1)>(a, row, column);
  }
}

// Rows outermost: the packed rows of one output row are small enough to stay in the first cache for all its columns.
template <int Bits, class Index>
void packed_rows(const AggregatePacked& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t column = 0; column < a.cols; column += kPackedBlock * W) packed_block_of<Bits, Index>(a, row, column);
}

using PackedRows = void (*)(const AggregatePacked&, int64_t, int64_t);

template <class Index>
PackedRows packed_function(int bits) {
  if (bits == 16) return packed_rows<16, Index>;
  if (bits == 8) return packed_rows<8, Index>;
  if (bits == 4) return packed_rows<4, Index>;
  return bits == 2 ? packed_rows<2, Index> : packed_rows<1, Index>;
}

void aggregate_packed(const AggregatePacked& a) {
  const int64_t chunks = a.threads > 1 ? a.threads * kPackedTasks : 1;
  const PackedRows run = a.wide_indices ? packed_function<int64_t>(a.bits) : packed_function<int32_t>(a.bits);
#pragma omp parallel for schedule(dynamic, 1) num_threads(a.threads) if (a.threads > 1)
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    run(a, split_rows(a.indptr, a.rows, chunk, chunks), split_rows(a.indptr, a.rows, chunk + 1, chunks));
}

}  // namespace
