"""The product of sparse matrices is the dense product, whatever the blocks; joined matrices are the dense ones."""

from __future__ import annotations

import pytest
import torch

from halowire.kernels import Csr, side_by_side, sparse_product, stacked

ROWS, INNER, COLUMNS = 9, 7, 5


def some_matrix(rows: int, columns: int, seed: int, weighted: bool = True) -> Csr:
    """A third of the entries, among them duplicates, empty rows and an empty column."""
    generator = torch.Generator().manual_seed(seed)
    count = rows * columns // 3
    row = torch.randint(0, rows - 1, (count,), generator=generator)
    column = torch.randint(0, max(1, columns - 1), (count,), generator=generator)
    weight = torch.randn(count, generator=generator) if weighted else None
    return Csr.from_edges(row, column, rows, columns, weight)


@pytest.mark.parametrize("most", [1, 8, 1 << 20])
@pytest.mark.parametrize(("left", "right"), [(True, True), (False, True), (True, False), (False, False)])
def test_product_is_the_dense_one(left, right, most):
    a, b = some_matrix(ROWS, INNER, 1, left), some_matrix(INNER, COLUMNS, 2, right)
    found = sparse_product(a, b, most)
    torch.testing.assert_close(found.to_dense(), a.to_dense() @ b.to_dense())
    assert found.distinct() is found, "one entry per row and column"


def test_product_of_nothing():
    a = Csr(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int32), None, INNER)
    assert sparse_product(a, some_matrix(INNER, COLUMNS, 2)).shape == (0, COLUMNS)


@pytest.mark.parametrize("weighted", [True, False])
def test_joined_matrices_are_the_dense_ones(weighted):
    left, right = some_matrix(ROWS, INNER, 3, weighted), some_matrix(ROWS, COLUMNS, 4)
    dense = torch.cat([left.to_dense(), right.to_dense()], 1)
    assert torch.equal(side_by_side(left, right).to_dense(), dense)
    below = some_matrix(2, INNER, 5, weighted)
    assert torch.equal(stacked([left, below], INNER).to_dense(), torch.cat([left.to_dense(), below.to_dense()]))
