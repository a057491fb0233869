// Bytes back to rows, of one level. See kernels/packing.py for the layout.
#pragma once
#include <cstring>
#include <type_traits>

#include "half.h"
#include "kernels.h"
#include "simd.h"

namespace {

using halowire::Unpack;

constexpr int64_t kUnpackAtOnce = 64;  // rows of one task

// The T at p. The last vector of a row may reach past it, harmlessly, but not past the end of the data.
template <class T>
inline T read(const uint8_t* p, const uint8_t*, Full) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <class T>
inline T read(const uint8_t* p, const uint8_t* end, const Part&) {
  T value = {};
  if (end - p >= static_cast<int64_t>(sizeof(T))) std::memcpy(&value, p, sizeof(T));
  else std::memcpy(&value, p, static_cast<size_t>(end - p));
  return value;
}

// W unsigned bytes or halves from p on as integers. (GCC converts such short vectors badly by itself.)
#if defined(__AVX512F__)
template <class At>
inline vi read_bytes(const uint8_t* p, const uint8_t* end, const At& at) {
  return reinterpret_cast<vi>(_mm512_cvtepu8_epi32(read<__m128i>(p, end, at)));
}
template <class At>
inline vi read_halves(const uint8_t* p, const uint8_t* end, const At& at) {
  return reinterpret_cast<vi>(_mm512_cvtepu16_epi32(read<__m256i>(p, end, at)));
}
#elif defined(__AVX2__)
template <class At>
inline vi read_bytes(const uint8_t* p, const uint8_t* end, const At& at) {
  return reinterpret_cast<vi>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(read<int64_t>(p, end, at))));
}
template <class At>
inline vi read_halves(const uint8_t* p, const uint8_t* end, const At& at) {
  return reinterpret_cast<vi>(_mm256_cvtepu16_epi32(read<__m128i>(p, end, at)));
}
#else
template <class At>
inline vi read_bytes(const uint8_t* p, const uint8_t* end, const At& at) {
  const uint32_t word = read<uint32_t>(p, end, at);
  return reinterpret_cast<vi>(vu{word, word >> 8, word >> 16, word >> 24} & 0xFFu);
}
template <class At>
inline vi read_halves(const uint8_t* p, const uint8_t* end, const At& at) {
  const uint64_t word = read<uint64_t>(p, end, at);
  const uint32_t low = static_cast<uint32_t>(word), high = static_cast<uint32_t>(word >> 32);
  return reinterpret_cast<vi>(vu{low, low >> 16, high, high >> 16} & 0xFFFFu);
}
#endif

// hi where the bit of a column is set, else lo; p is the payload from this vector's column on.
template <class At>
inline vf choose(const uint8_t* p, int64_t column, const uint8_t* end, const At& at, vf lo, vf hi) {
  const uint8_t* const q = p + column / 8;
#if defined(__AVX512F__)
  return _mm512_mask_blend_ps(static_cast<__mmask16>(read<uint16_t>(q, end, at)), lo, hi);
#elif defined(__AVX2__)
  (void)end, (void)at;
  // A byte in all four bytes of a lane, shifted left by 7 - lane: the column's bit becomes the sign, which blends.
  const vu shift = 7u - lanes();
  const __m256i spread = _mm256_sllv_epi32(_mm256_set1_epi8(static_cast<char>(*q)), reinterpret_cast<__m256i>(shift));
  return _mm256_blendv_ps(lo, hi, _mm256_castsi256_ps(spread));
#else
  (void)end, (void)at;
  const vi bit = 1 << reinterpret_cast<vi>(lanes());
  const vi mask = ((*q >> (column % 8)) & bit) == bit;
  return reinterpret_cast<vf>((reinterpret_cast<vi>(hi) & mask) | (reinterpret_cast<vi>(lo) & ~mask));
#endif
}

// The codes of the columns from `column` on, or their values at 16 bits.
template <int Bits, class At>
inline vf codes(const uint8_t* payload, int64_t column, const uint8_t* end, const At& at) {
  const uint8_t* const p = payload + column * Bits / 8;
  if constexpr (Bits == 16) {
    return reinterpret_cast<vf>(read_halves(p, end, at) << 16);
  } else if constexpr (Bits == 8) {
    return __builtin_convertvector(read_bytes(p, end, at), vf);
  } else if constexpr (Bits * W == 64) {
    const uint64_t word = read<uint64_t>(p, end, at);
    const vi first = reinterpret_cast<vi>(lanes() < 8u);
    const vi words = (static_cast<int32_t>(word) & first) | (static_cast<int32_t>(word >> 32) & ~first);
    const vu shifted = reinterpret_cast<vu>(words) >> ((lanes() & 7u) * 4u);
    return __builtin_convertvector(reinterpret_cast<vi>(shifted & 15u), vf);
  } else {
    using Word = std::conditional_t<Bits * W == 32, uint32_t, std::conditional_t<Bits * W == 16, uint16_t, uint8_t>>;
    const vu shifted = splat(static_cast<uint32_t>(read<Word>(p, end, at))) >> (lanes() * static_cast<uint32_t>(Bits));
    return __builtin_convertvector(reinterpret_cast<vi>(shifted & ((1u << Bits) - 1u)), vf);
  }
}

template <int Bits>
inline float step_of(float lo, float hi) {
  constexpr float share = static_cast<float>(1.0 / ((1 << Bits) - 1));
  return (hi - lo) * share;
}

template <int Bits>
void unpack_row(const Unpack& a, int64_t row) {
  const uint8_t* const p = a.data + row * a.row_bytes;
  const uint8_t* const end = a.data + a.rows * a.row_bytes;
  float* const out = a.out + row * a.out_stride;
  if constexpr (Bits == 16) {
    columns(a.cols, [&](int64_t j, auto at) { at.store(out + j, codes<16>(p, j, end, at)); });
  } else {
    const float lo = widened(read_half(p)), hi = widened(read_half(p + 2));
    const vf first = splat(lo), second = splat(hi), step = splat(step_of<Bits>(lo, hi));
    columns(a.cols, [&](int64_t j, auto at) {
      if constexpr (Bits == 1) at.store(out + j, choose(p + 4, j, end, at, first, second));
      else at.store(out + j, first + codes<Bits>(p + 4, j, end, at) * step);
    });
  }
}

void unpack_rows(const Unpack& a) {
  const auto unpack = a.bits == 16  ? unpack_row<16>
                      : a.bits == 8 ? unpack_row<8>
                      : a.bits == 4 ? unpack_row<4>
                      : a.bits == 2 ? unpack_row<2>
                                    : unpack_row<1>;
#pragma omp parallel for schedule(static, kUnpackAtOnce) num_threads(a.threads) if (a.threads > 1)
  for (int64_t row = 0; row < a.rows; ++row) unpack(a, row);
}

}  // namespace
