// Marks places in a table: whether all are different, and whether every place occurs.
#pragma once
#include <cstdint>

namespace halowire {

// Mark the places in `table`; how many were not marked before, or -1 if a place is outside.
inline int64_t mark(const int64_t* places, int64_t count, int64_t size, uint8_t* table) {
  int64_t fresh = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t place = static_cast<uint64_t>(places[i]);
    if (place >= static_cast<uint64_t>(size)) return -1;
    fresh += table[place] == 0;
    table[place] = 1;
  }
  return fresh;
}

}  // namespace halowire
