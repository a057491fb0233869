// One pass over a piece of a file, of one level: checksum and look at the values, block by block, so that the second reads
// from the first-level cache what the first has just read.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "crc.h"
#include "kernels.h"
#include "mark.h"
#include "scan.h"

namespace {

constexpr int64_t kLooked = 1 << 14;  // bytes of a block

// The first value of the block that breaks the rule, or -1; `before` is the value before the block.
int64_t first_breach(const halowire::Look& a, const uint8_t* block, int64_t count, int64_t before) {
  if (a.rule == halowire::kRange) return scan_range(block, a.size, count, a.low, a.high);
  if (a.rule == halowire::kRising)
    return scan_rising(reinterpret_cast<const int64_t*>(block), count, before, a.high);
  return scan_finite(block, count, a.rule == halowire::kPositive);
}

// The checksum of the piece after `crc`, and the first place whose value breaks the rule, or -1.
std::pair<uint32_t, int64_t> look(const halowire::Look& a) {
  if (a.rule == halowire::kAny) return {crc32_of(a.data, a.bytes, a.crc), -1};
  uint32_t crc = crc32_of(a.data, a.start, a.crc);
  int64_t bad = -1, before = a.before;
  for (int64_t begin = a.start; begin < a.bytes; begin += kLooked) {
    const uint8_t* const block = a.data + begin;
    const int64_t bytes = std::min(kLooked, a.bytes - begin), count = bytes / a.size;
    crc = crc32_of(block, bytes, crc);
    if (bad >= 0 || count == 0) continue;
    const int64_t found = first_breach(a, block, count, before);
    if (found >= 0) bad = (begin - a.start) / a.size + found;
    if (a.rule == halowire::kRising) before = reinterpret_cast<const int64_t*>(block)[count - 1];
  }
  return {crc, bad};
}

// The checksum of ids[index], or of ids where there is no index, for every peer, whose entries follow each other; fewer
// than `peers` if an entry is outside. `taken` is set to 1 at every index.
std::vector<uint32_t> digests(const int64_t* ids, int64_t limit, const int64_t* index, const int64_t* counts,
                              int64_t peers, uint8_t* taken) {
  std::vector<uint32_t> found;
  int64_t block[kScanned];
  for (int64_t peer = 0; peer < peers; ++peer) {
    if (index == nullptr) {
      found.push_back(crc32_of(reinterpret_cast<const uint8_t*>(ids), 8 * counts[peer], 0));
      ids += counts[peer];
      continue;
    }
    uint32_t crc = 0;
    for (int64_t left = counts[peer]; left > 0;) {
      const int64_t count = std::min(left, kScanned);
      if (!all_below(index, count, limit)) return found;
      for (int64_t i = 0; i < count; ++i) {
        block[i] = ids[index[i]];
        taken[index[i]] = 1;
      }
      crc = crc32_of(reinterpret_cast<const uint8_t*>(block), 8 * count, crc);
      index += count;
      left -= count;
    }
    found.push_back(crc);
  }
  return found;
}

}  // namespace
