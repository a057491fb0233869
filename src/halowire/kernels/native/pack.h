// Rows to bytes, of one level: each row is quantised once and written to all its positions. See kernels/packing.py.
#pragma once
#include <cstring>
#include <vector>

#include "half.h"
#include "kernels.h"
#include "random.h"
#include "simd.h"

namespace {

using halowire::kClipped;
using halowire::kLevels;
using halowire::Pack;

constexpr int kGroup = 16;               // columns whose codes fill whole bytes at any width; and the partial sums
constexpr int kParts = kGroup / W;       // vectors of a group
constexpr int64_t kRowsAtOnce = 64;      // rows of one task
constexpr float kScale = 0x1p-32f;       // keeps the sums of huge rows finite

// The lowest bit of every lane of a mask.
inline uint32_t mask_bits(vi mask) {
#if defined(__AVX512F__)
  return static_cast<uint32_t>(_mm512_movepi32_mask(reinterpret_cast<__m512i>(mask)));
#elif defined(__AVX2__)
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
#else
  uint32_t bits = 0;
  for (int i = 0; i < W; ++i) bits |= (static_cast<uint32_t>(mask[i]) & 1u) << i;
  return bits;
#endif
}

// Every lane's lowest byte, or lowest half, to adjacent places.
#if defined(__AVX512F__)
inline void write_bytes(uint8_t* p, vi v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(v)));
}
inline void write_halves(uint8_t* p, vi v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(v)));
}
#elif defined(__AVX2__)
inline __m128i halves(vi v) {
  const __m256i all = reinterpret_cast<__m256i>(v);
  return _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}
inline void write_bytes(uint8_t* p, vi v) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(halves(v), halves(v)));
}
inline void write_halves(uint8_t* p, vi v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), halves(v)); }
#else
inline void write_bytes(uint8_t* p, vi v) {
  for (int i = 0; i < W; ++i) p[i] = static_cast<uint8_t>(v[i]);
}
inline void write_halves(uint8_t* p, vi v) {
  for (int i = 0; i < W; ++i) {
    p[2 * i] = static_cast<uint8_t>(v[i]);
    p[2 * i + 1] = static_cast<uint8_t>(v[i] >> 8);
  }
}
#endif

// Eight bytes below 2^Bits become 8 Bits bits.
template <int Bits>
inline uint64_t squeezed(uint64_t w) {
  if (Bits == 4) {
    w = (w | w >> 4) & 0x00FF00FF00FF00FFull;
    w = (w | w >> 8) & 0x0000FFFF0000FFFFull;
    w = (w | w >> 16) & 0x00000000FFFFFFFFull;
  } else if (Bits == 2) {
    w = (w | w >> 6) & 0x000F000F000F000Full;
    w = (w | w >> 12) & 0x000000FF000000FFull;
    w = (w | w >> 24) & 0x000000000000FFFFull;
  }
  return w;
}

inline vi lanes_of(Full) { return ~vi{}; }
inline vi lanes_of(const Part& part) { return part.mask; }

// Calls f(column, part of the group, access) for up to 16 columns; f returns codes: a mask at 1 bit. Writes their bytes.
template <int Bits, class F>
inline void pack_group(int64_t column, int64_t count, uint8_t* out, const F& f) {
  if (Bits == 1) {
    uint32_t bits = 0;
    columns(count, [&](int64_t i, auto at) { bits |= mask_bits(f(column + i, i / W, at) & lanes_of(at)) << i; });
    std::memcpy(out, &bits, 2);
    return;
  }
  uint8_t codes[kGroup] = {};
  columns(count, [&](int64_t i, auto at) {
    write_bytes(codes + i, f(column + i, i / W, at) & lanes_of(at));
  });
  for (int half = 0; half < 2; ++half) {
    uint64_t word;
    std::memcpy(&word, codes + 8 * half, 8);
    word = squeezed<Bits>(word);
    std::memcpy(out + Bits * half, &word, Bits);
  }
}

template <int Bits, class F>
inline void pack_codes(int64_t k, uint8_t* out, const F& f) {
  int64_t j = 0;
  for (; j + kGroup <= k; j += kGroup, out += 2 * Bits) pack_group<Bits>(j, kGroup, out, f);
  if (j == k) return;
  uint8_t last[2 * kGroup];
  pack_group<Bits>(j, k - j, last, f);
  std::memcpy(out, last, static_cast<size_t>(((k - j) * Bits + 7) / 8));
}

// Uniform multiples of 2^-24 in [0, 1) for the columns of a row.
template <bool Subset>
struct Uniform {
  vu counter, high;
  const int32_t* columns;
  Uniform(const Pack& a, int64_t row) : columns(a.columns) {
    const uint64_t key = row_key(a.stream, a.ids[row]);
    counter = splat(static_cast<uint32_t>(key)) + (Subset ? vu{} : lanes() * kGolden32);
    high = splat(static_cast<uint32_t>(key >> 32));
  }
  template <class At>
  vf operator()(int64_t j, At at) const {
    vu start = counter;
    if (Subset) start += reinterpret_cast<vu>(at.load(reinterpret_cast<const float*>(columns + j))) * kGolden32;
    else start += static_cast<uint32_t>(j) * kGolden32;
    return __builtin_convertvector(reinterpret_cast<vi>(bits32<vu>(start, high) >> 8), vf) * 0x1p-24f;
  }
};

// float32 patterns as integers in the order of their values (-0 before 0, NaN beyond infinity), and back.
template <class T>
inline T ordered(T bits) {
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

inline int32_t lowest(vi v) {
#if defined(__AVX512F__)
  return _mm512_reduce_min_epi32(reinterpret_cast<__m512i>(v));
#elif defined(__AVX2__)
  const __m256i all = reinterpret_cast<__m256i>(v);
  __m128i low = _mm_min_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  low = _mm_min_epi32(low, _mm_shuffle_epi32(low, 0x4E));
  return _mm_cvtsi128_si32(_mm_min_epi32(low, _mm_shuffle_epi32(low, 0xB1)));
#else
  int32_t low = v[0];
  for (int i = 1; i < W; ++i) low = v[i] < low ? v[i] : low;
  return low;
#endif
}

struct Ends {
  uint16_t lo, hi;
  float scale;  // codes per unit; 0 where all codes are 0
};

// The least and the largest value of a row, as ordered integers.
struct Extremes {
  int32_t least, largest;
};

inline Extremes extremes(const float* x, int64_t k) {
  const int32_t first = ordered(static_cast<int32_t>(pattern(x[0])));
  vi low = first - vi{}, high = low;
  columns(k, [&](int64_t j, auto at) {
    const vi active = lanes_of(at);
    const vi key = (ordered(reinterpret_cast<vi>(at.load(x + j))) & active) | ((first - vi{}) & ~active);
    low = key < low ? key : low;
    high = key > high ? key : high;
  });
  return {lowest(low), ~lowest(~high)};
}

inline float value_of(int32_t key) {
  const int32_t bits = ordered(key);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline Ends minmax(const float* x, int64_t k, float most) {
  const auto [least, largest] = extremes(x, k);
  constexpr int32_t infinity = 0x7F800000;
  if (largest >= infinity || least <= ordered(static_cast<int32_t>(0xFF800000u))) return {kNotANumber, kNotANumber, 0};
  Ends ends = {outwards(static_cast<uint32_t>(ordered(least)), least < 0),
               outwards(static_cast<uint32_t>(ordered(largest)), largest >= 0), 0};
  const float span = widened(ends.hi) - widened(ends.lo);
  if (span > 0 && finite(span)) ends.scale = most / span;
  if (!(span > 0) || !finite(span) || !finite(ends.scale)) return {ends.lo, ends.lo, 0};
  return ends;
}

template <int Bits, bool Subset>
void pack_minmax(const Pack& a, const float* x, int64_t row, uint8_t* out) {
  constexpr float most = (1 << Bits) - 1;
  const Uniform<Subset> uniform(a, row);
  const Ends ends = minmax(x, a.cols, most);
  const vf lo = splat(widened(ends.lo)), scale = splat(ends.scale), top = splat(most);
  write_halves(out, ends.lo, ends.hi);
  pack_codes<Bits>(a.cols, out + 4, [&](int64_t j, int64_t, auto at) -> vi {
    const vf level = (at.load(x + j) - lo) * scale + uniform(j, at);
    if (Bits == 1) return reinterpret_cast<vi>(level >= 1.0f);
    const vf positive = select(reinterpret_cast<vi>(level > vf{}), level);
    return __builtin_convertvector(positive < top ? positive : top, vi);
  });
}

inline float ordered_sum(vf (&part)[kParts]) {
  for (int n = kParts / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) part[i] += part[i + n];
  return sum(part[0]);
}

// Means of the row and of its two sides, of values times 2^-32 when Huge; writes the codes. False if they overflow.
template <bool Huge>
bool side_means(const float* x, int64_t k, uint8_t* codes, float& mean, float& low, float& high) {
  const auto value = [&](int64_t j, auto at) { return Huge ? at.load(x + j) * kScale : at.load(x + j); };
  vf total[kParts] = {}, below[kParts] = {}, above[kParts] = {};
  int64_t j = 0;
  for (; j + kGroup <= k; j += kGroup)
    for (int i = 0; i < kParts; ++i) total[i] += value(j + i * W, Full{});
  columns(k - j, [&](int64_t i, auto at) { total[i / W] += value(j + i, at); });
  mean = ordered_sum(total) / static_cast<float>(k);
  vi count = {};
  pack_codes<1>(k, codes, [&](int64_t column, int64_t i, auto at) -> vi {
    const vf v = value(column, at);
    const vi over = reinterpret_cast<vi>(v > mean) & lanes_of(at);
    above[i] += select(over, v);
    below[i] += select(~over, v);
    count -= over;
    return over;
  });
  int64_t number = 0;
  for (int i = 0; i < W; ++i) number += count[i];
  low = ordered_sum(below) / static_cast<float>(k - number);
  high = ordered_sum(above) / static_cast<float>(number);
  if (number == k) low = high;
  if (number == 0) high = low;
  return finite(mean) && finite(low) && finite(high);
}

void pack_levels(const Pack& a, const float* x, int64_t, uint8_t* out) {
  float mean, low, high;
  uint16_t lo = kNotANumber, hi = kNotANumber;
  bool good = side_means<false>(x, a.cols, out + 4, mean, low, high);
  if (!good) {
    good = side_means<true>(x, a.cols, out + 4, mean, low, high);
    mean /= kScale, low /= kScale, high /= kScale;
  }
  if (good) {
    lo = nearest_finite(low);
    hi = nearest_finite(high);
    good = finite(widened(hi) - widened(lo));
    if (!good) lo = hi = nearest_finite(mean);
  }
  write_halves(out, lo, hi);
  if (!good) std::memset(out + 4, 0, static_cast<size_t>((a.cols + 7) / 8));
}

// The half range of 2^Bits equally spaced levels over the mean absolute deviation of the row: at 2 and 4 bits the one that
// loses least of a normal row, at 1 bit, where rounding is stochastic, one that clips little of it.
template <int Bits>
constexpr float kReach = Bits == 1 ? 1.5f : Bits == 2 ? 1.8723f : 3.151f;

template <int Bits, bool Subset>
void pack_clipped(const Pack& a, const float* x, int64_t row, uint8_t* out) {
  constexpr float most = (1 << Bits) - 1;
  const Uniform<Subset> uniform(a, row);
  float mean, low, high;
  uint16_t lo = kNotANumber, hi = kNotANumber;
  float scale = 0;
  bool good = side_means<false>(x, a.cols, out + 4, mean, low, high);  // its codes are overwritten below
  if (!good) {
    good = side_means<true>(x, a.cols, out + 4, mean, low, high);
    mean /= kScale, low /= kScale, high /= kScale;
  }
  if (good) {
    const float middle = low * 0.5f + high * 0.5f, reach = (high * 0.5f - low * 0.5f) * kReach<Bits>;
    const Extremes ends = extremes(x, a.cols);
    const float least = value_of(ends.least), largest = value_of(ends.largest);
    const float below = middle - reach, above = middle + reach;
    lo = nearest_finite(below > least ? below : least);
    hi = nearest_finite(above < largest ? above : largest);
    const float span = widened(hi) - widened(lo);
    if (span > 0 && finite(span) && finite(most / span)) scale = most / span;
    else lo = hi = nearest_finite(mean);
  }
  const vf first = splat(widened(lo)), steps = splat(scale), top = splat(most), half = splat(0.5f);
  write_halves(out, lo, hi);
  pack_codes<Bits>(a.cols, out + 4, [&](int64_t j, int64_t, auto at) -> vi {
    if (scale == 0) return vi{};
    const vf level = (at.load(x + j) - first) * steps + (Bits == 1 ? uniform(j, at) : half);
    if (Bits == 1) return reinterpret_cast<vi>(level >= 1.0f);
    const vf positive = select(reinterpret_cast<vi>(level > vf{}), level);
    return __builtin_convertvector(positive < top ? positive : top, vi);
  });
}

void pack_half(const Pack& a, const float* x, int64_t, uint8_t* out) {
  const auto rounded = [&](int64_t j, auto at) {
    const vf v = at.load(x + j);
    const vu same = reinterpret_cast<vu>(v == v);
    return reinterpret_cast<vi>((nearest(reinterpret_cast<vu>(v)) & same) | (kNotANumber & ~same));
  };
  int64_t j = 0;
  for (; j + W <= a.cols; j += W) write_halves(out + 2 * j, rounded(j, Full{}));
  if (j == a.cols) return;
  uint8_t last[2 * W];
  write_halves(last, rounded(j, Part(static_cast<int>(a.cols - j))));
  std::memcpy(out + 2 * j, last, static_cast<size_t>(2 * (a.cols - j)));
}

using PackRow = void (*)(const Pack&, const float*, int64_t, uint8_t*);

template <bool Subset>
PackRow pack_function(const Pack& a) {
  if (a.bits == 16) return pack_half;
  if (a.code == kLevels && a.bits > 1) return a.bits == 2 ? pack_clipped<2, Subset> : pack_clipped<4, Subset>;
  if (a.code == kLevels) return pack_levels;
  if (a.code == kClipped) return pack_clipped<1, Subset>;
  if (a.bits == 8) return pack_minmax<8, Subset>;
  if (a.bits == 4) return pack_minmax<4, Subset>;
  return a.bits == 2 ? pack_minmax<2, Subset> : pack_minmax<1, Subset>;
}

// x at W columns, as one vector: values stored one by one could not be read back as vectors before they reach the cache.
inline vf gather(const float* x, const int32_t* columns) {
  vf v;
  for (int i = 0; i < W; ++i) v[i] = x[columns[i]];
  return v;
}

inline int64_t place(const Pack& a, int64_t entry) {
  if (a.positions == nullptr) return entry;
  return a.wide_positions ? static_cast<const int64_t*>(a.positions)[entry]
                          : static_cast<const int32_t*>(a.positions)[entry];
}

// Packs one row to its positions; false if one lies outside the buffer.
inline bool pack_row(const Pack& a, PackRow pack, int64_t row, float* gathered) {
  const int64_t begin = a.indptr ? a.indptr[row] : row, end = a.indptr ? a.indptr[row + 1] : row + 1;
  for (int64_t e = begin; e < end; ++e)
    if (place(a, e) < 0 || place(a, e) >= a.places) return false;
  if (begin == end) return true;
  const float* x = a.x + row * a.x_stride;
  if (a.columns) {
    int64_t j = 0;
    for (; j + W <= a.cols; j += W) store(gathered + j, gather(x, a.columns + j));
    for (; j < a.cols; ++j) gathered[j] = x[a.columns[j]];
    x = gathered;
  }
  uint8_t* const first = a.out + place(a, begin) * a.row_bytes;
  pack(a, x, row, first);
  for (int64_t e = begin + 1; e < end; ++e)
    std::memcpy(a.out + place(a, e) * a.row_bytes, first, static_cast<size_t>(a.row_bytes));
  return true;
}

bool pack_rows(const Pack& a) {
  const PackRow pack = a.columns ? pack_function<true>(a) : pack_function<false>(a);
  const int64_t tasks = (a.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  bool good = true;
#pragma omp parallel num_threads(a.threads) reduction(&& : good) if (a.threads > 1)
  {
    std::vector<float> gathered(a.columns ? static_cast<size_t>(a.cols) : 0);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t stop = (task + 1) * kRowsAtOnce < a.rows ? (task + 1) * kRowsAtOnce : a.rows;
      for (int64_t row = task * kRowsAtOnce; row < stop; ++row) good = pack_row(a, pack, row, gathered.data()) && good;
    }
  }
  return good;
}

}  // namespace
