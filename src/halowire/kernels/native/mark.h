// Marks places in a table, which afterwards tells how many of them were different; of one level.
#pragma once
#include <algorithm>
#include <cstdint>

namespace {

// Whether all places are in 0 .. size - 1: a place below has its sign set, and so has the distance from one above to the
// last. The signs are collected without a branch, which vectorises on every level.
inline bool all_below(const int64_t* places, int64_t count, int64_t size) {
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  uint64_t signs = size > 0 || count == 0 ? 0 : ~uint64_t{0};
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t place = static_cast<uint64_t>(places[i]);
    signs |= place | (last - place);
  }
  return signs >> 63 == 0;
}

// Set the table to 1 at all places; false if one is outside, with some places marked. A block is looked at first, so that
// nothing but stores is left for each place.
inline bool mark(const int64_t* places, int64_t count, int64_t size, uint8_t* table) {
  constexpr int64_t block = 1024;
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t end = std::min(begin + block, count);
    if (!all_below(places + begin, end - begin, size)) return false;
    for (int64_t i = begin; i < end; ++i) table[places[i]] = 1;
  }
  return true;
}

}  // namespace
