// bf16 patterns: rounding in every direction the codes need, and back. Identical to the torch twin in packing_twin.py.
#pragma once
#include <cstdint>
#include <cstring>

namespace {

constexpr uint16_t kLargest = 0x7F7F, kNotANumber = 0x7FC0;
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed rows are little endian");

inline uint32_t pattern(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float widened(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline bool finite(float value) { return (pattern(value) & 0x7F800000u) != 0x7F800000u; }

inline uint16_t limited(uint32_t size, uint32_t sign) {
  return static_cast<uint16_t>((size < kLargest ? size : kLargest) | sign);
}

// A finite float32 rounded away from zero or towards it; never infinite.
inline uint16_t outwards(uint32_t bits, bool away) {
  const uint32_t size = bits & 0x7FFFFFFFu;
  return limited((size >> 16) + (away && (size & 0xFFFFu)), bits >> 31 << 15);
}

// To nearest even; NaN must have been dealt with. T is uint32_t or a vector of them.
template <class T>
inline T nearest(T bits) {
  return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}

inline uint16_t nearest_finite(float value) {
  const uint32_t half = nearest(pattern(value));
  return limited(half & 0x7FFFu, half & 0x8000u);
}

inline uint16_t read_half(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return half;
}

inline void write_halves(uint8_t* p, uint16_t first, uint16_t second) {
  std::memcpy(p, &first, 2);
  std::memcpy(p + 2, &second, 2);
}

}  // namespace
