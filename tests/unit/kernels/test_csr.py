"""The sparse matrix: construction, transposition, selection, products."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.kernels import Csr
from tests.support.choices import CHOICES, use


def example(weighted: bool = True) -> Csr:
    """``[[0, 1, 0], [0, 0, 0], [2 + 4, 0, 3], [0, 0, 5]]`` with one duplicate entry."""
    rows = torch.tensor([2, 0, 2, 2, 3])
    cols = torch.tensor([0, 1, 2, 0, 2])
    return Csr.from_edges(rows, cols, 4, 3, torch.tensor([2.0, 1.0, 3.0, 4.0, 5.0]) if weighted else None)


@pytest.mark.parametrize("choice", CHOICES)
def test_edges_are_ordered_by_row_and_column_and_duplicates_keep_their_order(choice: str) -> None:
    with use(choice):
        a = example()
    assert a.indptr.tolist() == [0, 1, 1, 4, 5]
    assert a.indices.tolist() == [1, 0, 0, 2, 2]
    assert a.weight is not None
    assert a.weight.tolist() == [1.0, 2.0, 4.0, 3.0, 5.0]
    assert (a.num_rows, a.num_cols, a.nnz) == (4, 3, 5)
    assert a.indices.dtype == torch.int32
    assert a.nbytes == 5 * 8 + 5 * 4 + 5 * 4


def test_degree_counts_entries_or_sums_weights() -> None:
    assert example().degree().tolist() == [1.0, 0.0, 9.0, 5.0]
    assert example(weighted=False).degree().tolist() == [1.0, 0.0, 3.0, 1.0]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("weighted", [True, False])
def test_transpose_equals_the_dense_one(choice: str, weighted: bool) -> None:
    with use(choice):
        a = example(weighted)
        turned = a.transpose()
    assert torch.equal(turned.to_dense(), a.to_dense().t())
    assert (turned.num_rows, turned.num_cols) == (3, 4)


def test_transpose_shares_what_is_symmetric() -> None:
    rows, cols = torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1])
    plain = Csr.from_edges(rows, cols, 2, 2)
    assert plain.transpose() is plain
    equal = plain.with_weight(torch.tensor([2.0, 2.0, 1.0]))
    assert equal.transpose() is equal
    skewed = plain.with_weight(torch.tensor([2.0, 3.0, 1.0]))
    turned = skewed.transpose()
    assert turned.indices is skewed.indices
    assert torch.equal(turned.to_dense(), skewed.to_dense().t())


def test_selected_rows_come_in_the_order_asked_for() -> None:
    a = example()
    index = torch.tensor([3, 2, 2, 1])
    assert torch.equal(a.select_rows(index).to_dense(), a.to_dense()[index])
    assert a.select_rows(torch.tensor([], dtype=torch.int64)).to_dense().shape == (0, 3)


@pytest.mark.parametrize("choice", CHOICES)
def test_product_overwrites_or_accumulates(choice: str) -> None:
    a, x = example(), torch.arange(12.0).reshape(3, 4)
    with use(choice):
        out = a.matmul(x)
        again = a.matmul(x, out=out.clone(), accumulate=True)
    assert torch.equal(out, a.to_dense() @ x)
    assert torch.equal(again, 2 * out)


@pytest.mark.parametrize(("rows", "cols"), [([4], [0]), ([-1], [0]), ([0], [3]), ([0], [-2])])
def test_ids_out_of_range_are_refused(rows: list[int], cols: list[int]) -> None:
    with pytest.raises(InputError, match="ids run from"):
        Csr.from_edges(torch.tensor(rows), torch.tensor(cols), 4, 3)


def test_wrong_lengths_and_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="equally many"):
        Csr.from_edges(torch.tensor([0, 1]), torch.tensor([0]), 4, 3)
    with pytest.raises(InputError, match="2 weights"):
        example().with_weight(torch.ones(2))
    with pytest.raises(InputError, match="3 columns"):
        example().matmul(torch.ones(4, 2))
    with pytest.raises(InputError, match="float32"):
        example().matmul(torch.ones(3, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="out"):
        example().matmul(torch.ones(3, 2), out=torch.ones(3, 2))
    with pytest.raises(InputError, match="accumulate"):
        example().matmul(torch.ones(3, 2), accumulate=True)


def test_columns_are_chosen_and_renumbered():
    generator = torch.Generator().manual_seed(2)
    for weight in (None, torch.rand(40, generator=generator)):
        rows, cols = torch.randint(6, (40,), generator=generator), torch.randint(9, (40,), generator=generator)
        a = Csr.from_edges(rows, cols, 6, 9, weight)
        for chosen in ([0, 3, 4, 8], [], list(range(9))):
            got = a.select_columns(torch.tensor(chosen, dtype=torch.int64))
            assert got.num_cols == len(chosen) and got.indices.dtype == torch.int32
            assert torch.equal(got.to_dense(), a.to_dense()[:, chosen])
        assert torch.equal(a.scaled(2.0).to_dense(), 2 * a.to_dense()) and a.scaled(1.0) is a


def test_of_duplicates_the_heaviest_stays() -> None:
    a = example().distinct()
    assert a.to_dense().tolist() == [[0, 1, 0], [0, 0, 0], [4, 0, 3], [0, 0, 5]]
    assert example(weighted=False).distinct().nnz == 4
    assert a.distinct() is a and a.shape == (4, 3)


def test_entries_of_rows_come_row_by_row() -> None:
    assert example().entries_of(torch.tensor([3, 1, 2])).tolist() == [4, 1, 2, 3]
    assert example().entries_of(torch.empty(0, dtype=torch.int64)).numel() == 0
