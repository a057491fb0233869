// The CRC-32 checksum of zlib and gzip, of one level: the same number as zlib's, several times as fast where the processor
// multiplies polynomials (PCLMULQDQ).
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#if defined(__PCLMUL__)
#include <immintrin.h>
#endif

namespace {

constexpr uint32_t kPolynomial = 0xEDB88320u;  // bits reflected: the lowest bit is the highest power

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? kPolynomial ^ (value >> 1) : value >> 1;
    table[byte] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

// The register after `count` more bytes; zlib's checksum is its complement, before and after.
inline uint32_t crc_bytes(const uint8_t* data, int64_t count, uint32_t state) {
  for (int64_t i = 0; i < count; ++i) state = kCrcTable[(state ^ data[i]) & 0xFF] ^ (state >> 8);
  return state;
}

#if defined(__PCLMUL__)
inline __m128i crc_load(const uint8_t* data) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)); }

// 128 bits moved on by as many bits as `powers` (two remainders of x^n, one for each half) stands for.
inline __m128i crc_moved(__m128i x, __m128i powers) {
  return _mm_xor_si128(_mm_clmulepi64_si128(x, powers, 0x00), _mm_clmulepi64_si128(x, powers, 0x11));
}
#endif

// Four lanes of 128 bits are each moved on by 512 bits and joined with what stands there, as in Intel's paper "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ". What is left are 16 bytes with the same remainder.
inline uint32_t crc32_of(const uint8_t* data, int64_t count, uint32_t crc) {
  uint32_t state = ~crc;
#if defined(__PCLMUL__)
  if (count >= 64) {
    const __m128i by_512 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
    const __m128i by_128 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    __m128i lane[4];
    for (int i = 0; i < 4; ++i) lane[i] = crc_load(data + 16 * i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128(static_cast<int>(state)));
    for (data += 64, count -= 64; count >= 64; data += 64, count -= 64)
      for (int i = 0; i < 4; ++i) lane[i] = _mm_xor_si128(crc_moved(lane[i], by_512), crc_load(data + 16 * i));
    for (int i = 1; i < 4; ++i) lane[i] = _mm_xor_si128(crc_moved(lane[i - 1], by_128), lane[i]);
    alignas(16) uint8_t rest[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(rest), lane[3]);
    state = crc_bytes(rest, 16, 0);
  }
#endif
  return ~crc_bytes(data, count, state);
}

// The product of two polynomials, modulo the checksum's.
constexpr uint32_t crc_product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t power = 1u << 31; power != 0; power >>= 1) {
    if (a & power) product ^= b;
    b = b & 1 ? kPolynomial ^ (b >> 1) : b >> 1;  // times x
  }
  return product;
}

// The checksum of two pieces, one after the other, from those of each: the first is moved on by the bytes of the second,
// which multiplies it by x^(8 bytes).
inline uint32_t crc32_joined(uint32_t first, uint32_t second, int64_t bytes) {
  uint32_t power = 1u << 23;  // x^8
  for (int64_t left = bytes; left > 0; left >>= 1, power = crc_product(power, power))
    if (left & 1) first = crc_product(first, power);
  return first ^ second;
}

}  // namespace
