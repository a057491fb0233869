// Edges to CSR by counting: one stable pass groups by column, a second one, the transpose, by row.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace halowire {

// indptr[i + 1] = number of keys up to i; indptr has `groups + 1` entries.
template <class Index>
void count_keys(const Index* keys, int64_t count, int64_t groups, int64_t* indptr) {
  for (int64_t i = 0; i <= groups; ++i) indptr[i] = 0;
  for (int64_t e = 0; e < count; ++e) ++indptr[keys[e] + 1];
  for (int64_t i = 0; i < groups; ++i) indptr[i + 1] += indptr[i];
}

// The transpose of a CSR matrix: entries of a new row are ascending because old rows are visited in order.
template <class Index, class OutIndex>
void transpose(const int64_t* indptr, const Index* indices, const float* weight, int64_t rows, int64_t cols,
               int64_t* out_indptr, OutIndex* out_indices, float* out_weight) {
  count_keys(indices + indptr[0], indptr[rows] - indptr[0], cols, out_indptr);
  const std::unique_ptr<int64_t[]> next(new int64_t[cols + 1]);
  for (int64_t i = 0; i < cols; ++i) next[i] = out_indptr[i];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t e = indptr[row]; e < indptr[row + 1]; ++e) {
      const int64_t to = next[indices[e]]++;
      out_indices[to] = static_cast<OutIndex>(row);
      if (weight != nullptr) out_weight[to] = weight[e];
    }
}

template <class Index, class OutIndex>
void sort_edges(const Index* rows, const Index* cols, const float* weight, int64_t count, int64_t num_rows,
                int64_t num_cols, int64_t* indptr, OutIndex* indices, float* out_weight) {
  const std::unique_ptr<int64_t[]> starts(new int64_t[num_cols + 1]);
  const std::unique_ptr<int64_t[]> next(new int64_t[num_cols + 1]);
  const std::unique_ptr<Index[]> by_column(new Index[count]);
  const std::unique_ptr<float[]> by_column_weight(weight != nullptr ? new float[count] : nullptr);
  count_keys(cols, count, num_cols, starts.get());
  for (int64_t i = 0; i < num_cols; ++i) next[i] = starts[i];
  for (int64_t e = 0; e < count; ++e) {
    const int64_t to = next[cols[e]]++;
    by_column[to] = rows[e];
    if (weight != nullptr) by_column_weight[to] = weight[e];
  }
  transpose(starts.get(), by_column.get(), by_column_weight.get(), num_cols, num_rows, indptr, indices, out_weight);
}

}  // namespace halowire
