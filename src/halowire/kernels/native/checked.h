// Checks of what the kernels themselves trust: that matrices stay inside their arrays. They cost a pass over the indices,
// so they are compiled only with HALOWIRE_CHECKED (debug and sanitizer builds); else nothing of them is left.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels.h"

namespace halowire {

#if defined(HALOWIRE_CHECKED)
constexpr bool kChecked = true;
#else
constexpr bool kChecked = false;
#endif

inline void require(bool good, const char* kernel, const std::string& what) {
  if (!good) throw std::out_of_range(std::string(kernel) + ": " + what);
}

// Every one of `count` indices lies in 0 .. limit - 1.
inline void require_indices(const char* kernel, const void* indices, bool wide, int64_t count, int64_t limit) {
  if constexpr (!kChecked) return;
  const int64_t at = portable_kernels.scan_range(indices, wide ? 8 : 4, count, 0, limit);
  require(at < 0, kernel,
          "the index at place " + std::to_string(at) + " lies outside 0.." + std::to_string(limit - 1));
}

// indptr never falls and stays within `count` entries.
inline void require_pointers(const char* kernel, const int64_t* indptr, int64_t rows, int64_t count) {
  if constexpr (!kChecked) return;
  require(rows >= 0 && count >= 0, kernel, "a size is negative");
  require(indptr[0] >= 0 && indptr[rows] <= count, kernel, "indptr reaches beyond the indices");
  require(std::is_sorted(indptr, indptr + rows + 1), kernel, "indptr falls");
}

inline void require_matrix(const char* kernel, const int64_t* indptr, const void* indices, bool wide, int64_t rows,
                           int64_t count, int64_t limit) {
  require_pointers(kernel, indptr, rows, count);
  require_indices(kernel, indices, wide, count, limit);
}

}  // namespace halowire
