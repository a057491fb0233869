// The Python module halowire.kernels._native. Tensors arrive as addresses: the Python wrappers check type, device and shape,
// so that nothing here needs torch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "buffers.h"
#include "checked.h"
#include "cover.h"
#include "crc.h"
#include "dlpack.h"
#include "kernels.h"
#include "rows.h"
#include "sort.h"

namespace nb = nanobind;
using namespace nb::literals;
using halowire::Kernels;

namespace {

using Address = uintptr_t;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

std::vector<std::string> levels() {
  std::vector<std::string> names = {"portable"};
#if defined(HALOWIRE_X86)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("pclmul");
  if (avx2) names.push_back("avx2");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    names.push_back("avx512");
#endif
  return names;
}

const Kernels& kernels(int level) {
#if defined(HALOWIRE_X86)
  if (level == halowire::kAvx512) return halowire::avx512_kernels;
  if (level == halowire::kAvx2) return halowire::avx2_kernels;
#endif
  (void)level;
  return halowire::portable_kernels;
}

const halowire::PackingKernels& packing(int level) {
#if defined(HALOWIRE_X86)
  if (level == halowire::kAvx512) return halowire::avx512_packing;
  if (level == halowire::kAvx2) return halowire::avx2_packing;
#endif
  (void)level;
  return halowire::portable_packing;
}

// `count` is the number of entries of a matrix and `limit` its number of columns: checked builds keep to them.
void aggregate(int level, Address indptr, Address indices, bool wide, int64_t count, int64_t limit, Address weight,
               Address x, int64_t x_stride, Address out, int64_t out_stride, int64_t rows, int64_t cols, bool accumulate,
               int threads) {
  halowire::require_matrix("aggregate", at<int64_t>(indptr), at<void>(indices), wide, rows, count, limit);
  kernels(level).aggregate({at<int64_t>(indptr), at<void>(indices), wide, at<float>(weight), at<float>(x), x_stride,
                            at<float>(out), out_stride, rows, cols, accumulate, threads});
}

void activate(int level, bool backward, Address x, int64_t x_stride, Address grad, int64_t grad_stride, Address out,
              int64_t out_stride, int64_t rows, int64_t cols, Address gamma, Address beta, Address stats, float eps,
              bool relu, bool drop, uint32_t threshold, float scale, uint64_t stream, Address ids, Address partial,
              Address grad_affine, int64_t blocks, int threads) {
  const halowire::Activate a = {at<float>(x),   x_stride,  at<float>(grad), grad_stride, at<float>(out),
                                out_stride,     rows,      cols,            at<float>(gamma), at<float>(beta),
                                at<float>(stats), eps,     relu,            drop,        threshold,
                                scale,          stream,    at<int64_t>(ids), at<float>(partial), at<float>(grad_affine),
                                blocks,         threads};
  if (backward) kernels(level).activate_backward(a);
  else kernels(level).activate(a);
}

void attend(int level, Address indptr, Address indices, bool wide, int64_t count, int64_t limit, Address x,
            int64_t x_stride, Address src, Address nodes, float slope, Address out, int64_t out_stride, Address positive,
            int64_t positive_stride, int64_t rows, int64_t heads, int64_t cols, int threads) {
  halowire::require_matrix("attend", at<int64_t>(indptr), at<void>(indices), wide, rows, count, limit);
  kernels(level).attend({at<int64_t>(indptr), at<void>(indices), wide, at<float>(x), x_stride, at<float>(src),
                         at<float>(nodes), slope, at<float>(out), out_stride, at<float>(positive), positive_stride, rows,
                         heads, cols, threads});
}

void attend_targets(int level, Address grad, int64_t grad_stride, Address out, int64_t out_stride, Address positive,
                    int64_t positive_stride, Address nodes, Address back, Address dst_grad, float slope, int64_t rows,
                    int64_t heads, int64_t cols, int threads) {
  kernels(level).attend_targets({at<float>(grad), grad_stride, at<float>(out), out_stride, at<float>(positive),
                                 positive_stride, at<float>(nodes), at<float>(back), at<float>(dst_grad), slope, rows,
                                 heads, cols, threads});
}

void attend_sources(int level, Address indptr, Address indices, bool wide, int64_t count, int64_t limit, Address grad,
                    int64_t grad_stride, Address x, int64_t x_stride, Address src, Address back, Address att_src,
                    Address att_dst, Address dst_grad, float slope, Address x_grad, int64_t x_grad_stride,
                    Address src_grad, int64_t rows, int64_t heads, int64_t cols, int threads) {
  halowire::require_matrix("attend_sources", at<int64_t>(indptr), at<void>(indices), wide, rows, count, limit);
  kernels(level).attend_sources({at<int64_t>(indptr), at<void>(indices), wide, at<float>(grad), grad_stride,
                                 at<float>(x), x_stride, at<float>(src), at<float>(back), at<float>(att_src),
                                 at<float>(att_dst), at<float>(dst_grad), slope, at<float>(x_grad), x_grad_stride,
                                 at<float>(src_grad), rows, heads, cols, threads});
}

bool pack_rows(int level, Address x, int64_t x_stride, int64_t rows, int64_t cols, int64_t width, Address columns,
               int bits, int code, uint64_t stream, Address ids, Address indptr, Address positions, bool wide,
               int64_t count, Address out, int64_t row_bytes, int64_t places, int threads) {
  if (columns) halowire::require_indices("pack_rows", at<void>(columns), false, cols, width);
  if (indptr) halowire::require_pointers("pack_rows", at<int64_t>(indptr), rows, count);
  return packing(level).pack({at<float>(x), x_stride, rows, cols, at<int32_t>(columns), bits, code, stream,
                              at<int64_t>(ids), at<int64_t>(indptr), at<void>(positions), wide, at<uint8_t>(out),
                              row_bytes, places, threads});
}

void unpack_rows(int level, Address data, int64_t row_bytes, int bits, Address out, int64_t out_stride, int64_t rows,
                 int64_t cols, int threads) {
  packing(level).unpack({at<uint8_t>(data), row_bytes, bits, at<float>(out), out_stride, rows, cols, threads});
}

void aggregate_packed(int level, Address indptr, Address indices, bool wide, int64_t count, int64_t limit,
                      Address weight, Address data, int64_t row_bytes, int64_t data_bytes, int bits, Address out,
                      int64_t out_stride, int64_t rows, int64_t cols, bool accumulate, int threads) {
  halowire::require_matrix("aggregate_packed", at<int64_t>(indptr), at<void>(indices), wide, rows, count, limit);
  packing(level).aggregate({at<int64_t>(indptr), at<void>(indices), wide, at<float>(weight), at<uint8_t>(data),
                            row_bytes, data_bytes, bits, at<float>(out), out_stride, rows, cols, accumulate, threads});
}

bool take_rows(Address x, int64_t stride, int64_t limit, Address index, bool wide, int64_t count, int64_t bytes,
               Address out, int64_t out_stride, int threads) {
  if (wide)
    return halowire::take_rows(at<char>(x), stride, limit, at<int64_t>(index), count, bytes, at<char>(out), out_stride,
                               threads);
  return halowire::take_rows(at<char>(x), stride, limit, at<int32_t>(index), count, bytes, at<char>(out), out_stride,
                             threads);
}

void sort_edges(Address rows, Address cols, bool wide, Address weight, int64_t count, int64_t num_rows,
                int64_t num_cols, Address indptr, Address indices, bool wide_out, Address out_weight) {
  halowire::require_indices("sort_edges", at<void>(rows), wide, count, num_rows);
  halowire::require_indices("sort_edges", at<void>(cols), wide, count, num_cols);
  const auto run = [&](auto* r, auto* out) {
    using Index = std::remove_pointer_t<decltype(r)>;
    halowire::sort_edges(r, at<Index>(cols), at<float>(weight), count, num_rows, num_cols, at<int64_t>(indptr), out,
                         at<float>(out_weight));
  };
  if (wide && wide_out) run(at<int64_t>(rows), at<int64_t>(indices));
  else if (wide) run(at<int64_t>(rows), at<int32_t>(indices));
  else if (wide_out) run(at<int32_t>(rows), at<int64_t>(indices));
  else run(at<int32_t>(rows), at<int32_t>(indices));
}

void transpose(Address indptr, Address indices, bool wide, int64_t count, int64_t limit, Address weight, int64_t rows,
               Address out_indptr, Address out_indices, bool wide_out, Address out_weight) {
  halowire::require_matrix("transpose", at<int64_t>(indptr), at<void>(indices), wide, rows, count, limit);
  const auto run = [&](auto* in, auto* out) {
    halowire::transpose(at<int64_t>(indptr), in, at<float>(weight), rows, limit, at<int64_t>(out_indptr), out,
                        at<float>(out_weight));
  };
  if (wide && wide_out) run(at<int64_t>(indices), at<int64_t>(out_indices));
  else if (wide) run(at<int64_t>(indices), at<int32_t>(out_indices));
  else if (wide_out) run(at<int32_t>(indices), at<int64_t>(out_indices));
  else run(at<int32_t>(indices), at<int32_t>(out_indices));
}

void minimum_cover(Address indptr, Address indices, bool wide, int64_t count, int64_t limit, int64_t rows,
                   Address covered) {
  halowire::require_matrix("minimum_cover", at<int64_t>(indptr), at<void>(indices), wide, rows, count, limit);
  const auto run = [&](auto* in) {
    using Index = std::remove_pointer_t<decltype(in)>;
    halowire::Matching<Index>(at<int64_t>(indptr), in, rows, limit).cover(at<uint8_t>(covered));
  };
  if (wide) run(at<int64_t>(indices));
  else run(at<int32_t>(indices));
}

int64_t scan_range(int level, Address values, int size, int64_t count, int64_t low, int64_t high) {
  return kernels(level).scan_range(at<void>(values), size, count, low, high);
}

std::pair<uint32_t, int64_t> look(int level, Address data, int64_t bytes, int64_t start, uint32_t crc, int rule,
                                  int size, int64_t low, int64_t high, int64_t before) {
  return kernels(level).look({at<uint8_t>(data), bytes, start, crc, rule, size, low, high, before});
}

std::vector<uint32_t> digests(int level, Address ids, int64_t limit, Address index, Address counts, int64_t peers,
                              Address taken) {
  return kernels(level).digests(at<int64_t>(ids), limit, at<int64_t>(index), at<int64_t>(counts), peers,
                                at<uint8_t>(taken));
}

bool mark(int level, Address places, int64_t count, int64_t size, Address table) {
  return kernels(level).mark(at<int64_t>(places), count, size, at<uint8_t>(table));
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "halowire's native kernels; called through the wrappers in halowire.kernels";
  m.attr("ABI") = 9;  // dispatch.py refuses a module built from older sources
  m.attr("CHECKED") = halowire::kChecked;
  m.def("levels", &levels);
  m.def("aggregate", &aggregate, Unlocked());
  m.def("activate", &activate, Unlocked());
  m.def("attend", &attend, Unlocked());
  m.def("attend_targets", &attend_targets, Unlocked());
  m.def("attend_sources", &attend_sources, Unlocked());
  m.def("pack_rows", &pack_rows, Unlocked());
  m.def("unpack_rows", &unpack_rows, Unlocked());
  m.def("aggregate_packed", &aggregate_packed, Unlocked());
  m.def("take_rows", &take_rows, Unlocked());
  m.def("sort_edges", &sort_edges, Unlocked());
  m.def("transpose", &transpose, Unlocked());
  m.def("minimum_cover", &minimum_cover, Unlocked());
  m.def("scan_range", &scan_range, Unlocked());
  m.def("look", &look, Unlocked());
  m.def("digests", &digests, Unlocked());
  m.def("joined_checksum", &crc32_joined);
  m.def("mark", &mark, Unlocked());
  m.def("buffer", [](int64_t rows, int64_t cols, int64_t stride) {
    return nb::steal(halowire::buffer_capsule(rows, cols, stride));
  });
  m.def("buffer_bytes", &halowire::cached_bytes);
  m.def("release_buffers", &halowire::release_blocks, Unlocked());
  m.def("buffer_floor", &halowire::set_floor, Unlocked());
}
