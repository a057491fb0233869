// Looks for values that an array must not hold, of one level. A block of values is judged by its largest one, which
// vectorises; only where a block is suspect are its values looked at one by one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels.h"

namespace {

constexpr int64_t kScanned = 2048;  // values of a block

// The largest value of a block, seen as unsigned numbers after `low` is taken off: those below `low` become huge.
template <class U>
inline U largest(const U* v, int64_t count, U low, U mask) {
  U most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const U value = static_cast<U>((v[i] & mask) - low);
    most = value > most ? value : most;
  }
  return most;
}

// The first of `count` values for which bad(value) holds, or -1; blocks whose largest value is at most `fine` are skipped.
template <class U, class Bad>
int64_t first_bad(const U* v, int64_t count, U low, U mask, U fine, const Bad& bad) {
  for (int64_t begin = 0; begin < count; begin += kScanned) {
    const int64_t end = begin + kScanned < count ? begin + kScanned : count;
    if (largest<U>(v + begin, end - begin, low, mask) <= fine) continue;
    for (int64_t i = begin; i < end; ++i)
      if (bad(v[i])) return i;
  }
  return -1;
}

template <class U>
int64_t outside(const void* values, int64_t count, int64_t low, int64_t high) {
  using S = std::make_signed_t<U>;
  using V = std::conditional_t<sizeof(U) == 1, U, S>;  // bytes are unsigned, as flags and labels are
  if constexpr (sizeof(U) < 8) {  // ends that the type cannot hold would be cut off to others
    low = std::max(low, static_cast<int64_t>(std::numeric_limits<V>::min()));
    high = std::min(high, static_cast<int64_t>(std::numeric_limits<V>::max()) + 1);
  }
  const U all = static_cast<U>(~U{0});
  const U span = static_cast<U>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low) - 1);
  if (high <= low) return count ? 0 : -1;
  return first_bad<U>(static_cast<const U*>(values), count, static_cast<U>(low), all, span, [&](U bits) {
    const int64_t value = static_cast<V>(bits);
    return value < low || value >= high;
  });
}

// The first value outside low .. high - 1, or -1; values are int64, int32 or unsigned bytes, by their size.
int64_t scan_range(const void* values, int size, int64_t count, int64_t low, int64_t high) {
  if (size == 8) return outside<uint64_t>(values, count, low, high);
  if (size == 4) return outside<uint32_t>(values, count, low, high);
  return outside<uint8_t>(values, count, low, high);
}

// The first value that is no finite number, or that is below zero where `positive`; or -1.
int64_t scan_finite(const void* values, int64_t count, bool positive) {
  constexpr uint32_t largest_finite = 0x7F7FFFFFu, sign = 0x80000000u;
  // With its sign in place a number below zero is larger than all others; -0 is let pass by the second look.
  return first_bad<uint32_t>(static_cast<const uint32_t*>(values), count, 0u, positive ? ~0u : ~sign, largest_finite,
                             [&](uint32_t bits) {
                               return (bits & ~sign) > largest_finite || (positive && bits > sign);
                             });
}

// The first of some values that is below the one before it or not below `high`, or -1; `before` comes before them.
int64_t scan_rising(const int64_t* values, int64_t count, int64_t before, int64_t high) {
  int64_t falls = values[0] < before;
  for (int64_t i = 1; i < count; ++i) falls |= values[i] < values[i - 1];
  if (!falls && values[count - 1] < high) return -1;  // what rises is below its last value
  for (int64_t i = 0; i < count; before = values[i++])
    if (values[i] < before || values[i] >= high) return i;
  return -1;
}

}  // namespace
