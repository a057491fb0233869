// The kernels that exist once per instruction-set level, and their arguments. Strides count elements, not bytes.
#pragma once
#include <cstdint>

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

struct Kernels {
  void (*aggregate)(const Aggregate&);
  void (*activate)(const Activate&);
  void (*activate_backward)(const Activate&);
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
