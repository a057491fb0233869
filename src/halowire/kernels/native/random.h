// Counter-based random bits: a pure function of (stream, id, column), identical to the torch twin in kernels/counter_random.py.
#pragma once
#include <cstdint>

namespace {

constexpr uint64_t kGolden64 = 0x9E3779B97F4A7C15ull;
constexpr uint32_t kGolden32 = 0x9E3779B9u;

inline uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

inline uint64_t row_key(uint64_t stream, int64_t id) { return mix64(stream + static_cast<uint64_t>(id) * kGolden64); }

// T is uint32_t or a vector of them; counter = low half of the key + column * kGolden32.
template <class T>
inline T bits32(T counter, T high) {
  counter ^= counter >> 16;
  counter *= 0x7FEB352Du;
  counter ^= high;
  counter ^= counter >> 15;
  counter *= 0x846CA68Bu;
  return counter ^ (counter >> 16);
}

}  // namespace
