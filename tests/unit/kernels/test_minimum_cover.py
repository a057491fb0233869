"""Minimum covers: as small as scipy's maximum matching, the same from native code and its twin, and truly covers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from halowire.kernels import Csr, minimum_cover
from halowire.kernels.minimum_cover import minimum_cover_twin


def matrix_of(edges: list[tuple[int, int]], rows: int, columns: int) -> Csr:
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
    return Csr.from_edges(pairs[:, 0], pairs[:, 1], rows, columns)


def size(matrix: Csr, covered: torch.Tensor) -> int:
    """Rows in the cover, and columns of the entries that no such row touches."""
    return int(covered.sum()) + matrix.indices[~covered[matrix.row_index()]].unique().numel()


def matching(matrix: Csr) -> int:
    entries = (np.ones(matrix.nnz), matrix.indices.numpy(), matrix.indptr.numpy())
    return int((maximum_bipartite_matching(csr_matrix(entries, shape=matrix.shape), perm_type="column") >= 0).sum())


@st.composite
def matrices(draw: st.DrawFn) -> Csr:
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    entry = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
    return matrix_of(draw(st.lists(entry, max_size=40)), rows, columns)


@given(matrices())
def test_the_cover_is_as_small_as_the_largest_matching(matrix):
    covered = minimum_cover(matrix)
    assert size(matrix, covered) == matching(matrix)
    assert torch.equal(covered, minimum_cover_twin(matrix))


@pytest.mark.parametrize(("rows", "columns", "entries"), [(400, 300, 900), (300, 400, 3000), (1500, 40, 4000)])
def test_larger_matrices(rows, columns, entries):
    generator = torch.Generator().manual_seed(rows)
    where = (torch.rand(2, entries, generator=generator) ** 2 * torch.tensor([[rows], [columns]])).long()
    matrix = Csr.from_edges(*where, rows, columns)
    covered = minimum_cover(matrix)
    assert size(matrix, covered) == matching(matrix) and torch.equal(covered, minimum_cover_twin(matrix))


def test_of_equal_covers_the_one_with_the_most_rows_is_taken():
    star = matrix_of([(0, 0), (0, 1), (0, 2)], 1, 3)
    assert minimum_cover(star).tolist() == [True]
    turned = star.transpose()
    assert minimum_cover(turned).tolist() == [False] * 3, "one column covers all three entries"
    assert minimum_cover(matrix_of([(0, 0), (1, 1)], 3, 3)).tolist() == [True, True, False]
