// Cuts the rows of a CSR matrix into ranges of equal work.
#pragma once
#include <cstdint>

namespace {

// First row of range `part` of `parts`, where a row costs its entries plus one.
inline int64_t split_rows(const int64_t* indptr, int64_t rows, int64_t part, int64_t parts) {
  const int64_t total = indptr[rows] - indptr[0] + rows;
  const int64_t target = static_cast<int64_t>(static_cast<double>(total) * part / parts);
  if (part >= parts) return rows;
  int64_t low = 0, high = rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (indptr[middle] - indptr[0] + middle < target) low = middle + 1;
    else high = middle;
  }
  return low;
}

}  // namespace
