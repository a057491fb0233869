// The vector type of one instruction-set level. A level's source is compiled on its own with its own flags; the anonymous
// namespace keeps the linker from sharing one level's code with another that cannot run it.
#pragma once
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef float vf_unaligned __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef uint32_t vu __attribute__((vector_size(W * 4)));

inline vf splat(float value) { return value - vf{}; }
inline vu splat(uint32_t value) { return value - vu{}; }
inline vf load(const float* p) { return *reinterpret_cast<const vf_unaligned*>(p); }
inline void store(float* p, vf v) { *reinterpret_cast<vf_unaligned*>(p) = v; }

inline vu lanes() {
  vu v;
  for (int i = 0; i < W; ++i) v[i] = static_cast<uint32_t>(i);
  return v;
}

inline vf select(vi mask, vf yes) { return reinterpret_cast<vf>(reinterpret_cast<vi>(yes) & mask); }

// Lane i of the result is lane index[i] of v.
inline vf permute(vf v, vi index) {
#if defined(__AVX512F__)
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), v);
#elif defined(__AVX2__)
  return _mm256_permutevar8x32_ps(v, reinterpret_cast<__m256i>(index));
#else
  vf r;
  for (int i = 0; i < W; ++i) r[i] = v[index[i]];
  return r;
#endif
}

inline float sum(vf v) {
  alignas(64) float t[W];
  store(t, v);
  for (int half = W / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] += t[i + half];
  return t[0];
}

// Access to W columns, and to the last few where fewer than W remain: memory past the row is neither read nor written.
struct Full {
  vf load(const float* p) const { return ::load(p); }
  void store(float* p, vf v) const { ::store(p, v); }
  vf keep(vf v) const { return v; }
};

struct Part {
  vi mask;
  int count;
  explicit Part(int n) : count(n) {
    for (int i = 0; i < W; ++i) mask[i] = i < n ? -1 : 0;
  }
  vf keep(vf v) const { return select(mask, v); }
#if defined(__AVX512F__)
  vf load(const float* p) const { return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), p); }
  void store(float* p, vf v) const { _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1u), v); }
#elif defined(__AVX2__)
  vf load(const float* p) const { return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask)); }
  void store(float* p, vf v) const { _mm256_maskstore_ps(p, reinterpret_cast<__m256i>(mask), v); }
#else
  vf load(const float* p) const {
    vf v = {};
    for (int i = 0; i < count; ++i) v[i] = p[i];
    return v;
  }
  void store(float* p, vf v) const {
    for (int i = 0; i < count; ++i) p[i] = v[i];
  }
#endif
};

// Calls f(column, access) for every vector of a row of k columns.
template <class F>
inline void columns(int64_t k, const F& f) {
  int64_t j = 0;
  for (; j + W <= k; j += W) f(j, Full{});
  if (j < k) f(j, Part(static_cast<int>(k - j)));
}

}  // namespace
