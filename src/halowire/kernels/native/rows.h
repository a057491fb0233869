// Gathers rows into a contiguous buffer.
#pragma once
#include <cstdint>
#include <cstring>

namespace halowire {

// out[i] = x[index[i]], rows of `bytes` bytes, `stride` bytes apart in x. Returns false if an index lies outside x.
template <class Index>
bool take_rows(const char* x, int64_t stride, int64_t limit, const Index* index, int64_t count, int64_t bytes, char* out,
               int64_t out_stride, int threads) {
  constexpr int64_t ahead = 8;
  bool good = true;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(&& : good) if (threads > 1)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t soon = i + ahead < count ? static_cast<int64_t>(index[i + ahead]) : 0;
    if (soon >= 0 && soon < limit)
      for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(x + soon * stride + b);
    const int64_t from = static_cast<int64_t>(index[i]);
    if (from < 0 || from >= limit) {
      good = false;
      continue;
    }
    std::memcpy(out + i * out_stride, x + from * stride, static_cast<size_t>(bytes));
  }
  return good;
}

}  // namespace halowire
