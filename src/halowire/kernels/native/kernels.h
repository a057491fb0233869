// The kernels that exist once per instruction-set level, and their arguments. Strides count elements, not bytes.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace halowire {

struct Aggregate {
  const int64_t* indptr;  // [rows + 1]
  const void* indices;    // int32 or int64 [nnz]
  bool wide_indices;
  const float* weight;  // [nnz] or null: all ones
  const float* x;
  int64_t x_stride;
  float* out;
  int64_t out_stride;
  int64_t rows, cols;
  bool accumulate;
  int threads;
};

// Attention of rows x [m, heads * cols]; node i has 4 * heads floats: its score, the largest score of its edges, the
// reciprocal of their sum of exponentials, and the share of positive edges (backward: <grad, out>).
struct Attend {
  const int64_t* indptr;  // [rows + 1]
  const void* indices;    // int32 or int64 [nnz]
  bool wide_indices;
  const float* x;
  int64_t x_stride;
  const float* src;  // scores of the sources, [m, heads]
  float* nodes;      // [rows, 4, heads], the scores given, the rest written
  float slope;
  float* out;
  int64_t out_stride;
  float* positive;  // the part of out that comes from edges of positive score, or null
  int64_t positive_stride;
  int64_t rows, heads, cols;
  int threads;
};

struct AttendTargets {
  const float* grad;
  int64_t grad_stride;
  const float* out;
  int64_t out_stride;
  const float* positive;
  int64_t positive_stride;
  const float* nodes;  // [rows, 4, heads] of forward
  float* back;         // the same with <grad, out> last
  float* dst_grad;     // [rows, heads]
  float slope;
  int64_t rows, heads, cols;
  int threads;
};

struct AttendSources {
  const int64_t* indptr;  // of the transposed matrix: a row is a source, its columns are targets
  const void* indices;
  bool wide_indices;
  const float* grad;  // [targets, heads * cols]
  int64_t grad_stride;
  const float* x;
  int64_t x_stride;
  const float* src;       // [rows, heads]
  const float* back;      // [targets, 4, heads]
  const float* att_src;   // [heads * cols]: src = <x, att_src>
  const float* att_dst;   // [heads * cols], or null with dst_grad
  const float* dst_grad;  // [rows, heads] or null: the sources are no targets
  float slope;
  float* x_grad;
  int64_t x_grad_stride;
  float* src_grad;  // [rows, heads]
  int64_t rows, heads, cols;
  int threads;
};

struct Activate {
  const float* x;
  int64_t x_stride;
  const float* grad;  // backward only
  int64_t grad_stride;
  float* out;  // forward: y; backward: grad of x
  int64_t out_stride;
  int64_t rows, cols;
  const float* gamma;  // null: no normalisation
  const float* beta;
  float* stats;  // mean and 1/std of every row, [rows, 2]
  float eps;
  bool relu;
  bool drop;
  uint32_t threshold;  // an element stays iff its random bits reach it
  float scale;
  uint64_t stream;     // see random.h
  const int64_t* ids;  // [rows]
  float* partial;      // backward only: scratch [blocks, 2, cols]
  float* grad_affine;  // backward only: grads of gamma and beta, [2, cols]
  int64_t blocks;
  int threads;
};

// How values become codes; the numbers of kernels/packing.py.
enum Code { kMinmax = 0, kLevels = 1, kClipped = 2 };

struct Pack {
  const float* x;
  int64_t x_stride;
  int64_t rows;
  int64_t cols;            // packed, that is of `columns` where given
  const int32_t* columns;  // [cols], or null: all
  int bits;
  int code;
  uint64_t stream;        // see random.h
  const int64_t* ids;     // [rows]
  const int64_t* indptr;  // [rows + 1] into positions, or null: row r goes to position r
  const void* positions;  // int32 or int64
  bool wide_positions;
  uint8_t* out;  // [places, row_bytes]
  int64_t row_bytes, places;
  int threads;
};

struct Unpack {
  const uint8_t* data;  // [rows, row_bytes]
  int64_t row_bytes;
  int bits;
  float* out;
  int64_t out_stride;
  int64_t rows, cols;
  int threads;
};

struct AggregatePacked {
  const int64_t* indptr;  // [rows + 1]
  const void* indices;    // int32 or int64 [nnz]
  bool wide_indices;
  const float* weight;  // [nnz] or null: all ones
  const uint8_t* data;  // rows of row_bytes
  int64_t row_bytes, data_bytes;
  int bits;
  float* out;
  int64_t out_stride;
  int64_t rows, cols;
  bool accumulate;
  int threads;
};

struct PackingKernels {
  bool (*pack)(const Pack&);  // false if a position lies outside the buffer
  void (*unpack)(const Unpack&);
  void (*aggregate)(const AggregatePacked&);
};

// What the values of an array must be; the numbers of kernels/look.py.
enum Rule { kAny = 0, kRange = 1, kFinite = 2, kPositive = 3, kRising = 4 };

struct Look {
  const uint8_t* data;
  int64_t bytes, start;  // the values begin at byte `start`
  uint32_t crc;          // of what comes before the piece
  int rule;
  int size;           // bytes of a value
  int64_t low, high;  // kRange: from `low` to `high - 1`; kRising: below `high`
  int64_t before;     // kRising only: the value before the piece
};

struct Kernels {
  void (*aggregate)(const Aggregate&);
  void (*activate)(const Activate&);
  void (*activate_backward)(const Activate&);
  void (*attend)(const Attend&);
  void (*attend_targets)(const AttendTargets&);
  void (*attend_sources)(const AttendSources&);
  int64_t (*scan_range)(const void* values, int size, int64_t count, int64_t low, int64_t high);
  std::pair<uint32_t, int64_t> (*look)(const Look&);
  std::vector<uint32_t> (*digests)(const int64_t* ids, int64_t limit, const int64_t* index, const int64_t* counts,
                                   int64_t peers, uint8_t* taken);
  bool (*mark)(const int64_t* places, int64_t count, int64_t size, uint8_t* table);
};

enum Level { kPortable = 0, kAvx2 = 1, kAvx512 = 2 };

extern const Kernels portable_kernels;
extern const PackingKernels portable_packing;
#if defined(HALOWIRE_X86)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
extern const PackingKernels avx2_packing;
extern const PackingKernels avx512_packing;
#endif

}  // namespace halowire
