"""Aggregation and sorting agree with dense arithmetic for any matrix, width, stride, index type and implementation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halowire.kernels import Csr, aggregate
from tests.support.any_edges import edges
from tests.support.choices import CHOICES, use, use_threads

WIDTHS = st.one_of(st.integers(1, 70), st.sampled_from([96, 128, 129, 200, 256, 257]))


def strided(rows: int, cols: int, gap: int) -> Tensor:
    """Random float32 ``[rows, cols]`` whose rows lie ``cols + gap`` apart."""
    return torch.randn(rows, cols + gap)[:, :cols]


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=60, deadline=None)
@given(
    edges=edges(),
    k=WIDTHS,
    weighted=st.booleans(),
    wide=st.booleans(),
    accumulate=st.booleans(),
    gaps=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    threads=st.sampled_from([1, 2, 3]),
)
def test_aggregate_equals_the_dense_product(
    choice: str,
    edges: tuple[Tensor, Tensor, int, int],
    k: int,
    weighted: bool,
    wide: bool,
    accumulate: bool,
    gaps: tuple[int, int],
    threads: int,
) -> None:
    torch.manual_seed(k)  # the numbers of an example do not depend on the tests before it
    rows, cols, num_rows, num_cols = edges
    weight = torch.randn(rows.numel()) if weighted else None
    x, out = strided(num_cols, k, gaps[0]), torch.randn(num_rows, k + gaps[1])
    before = out.clone()
    dense = torch.zeros(num_rows, num_cols, dtype=torch.float64)
    values = torch.ones(rows.numel()) if weight is None else weight
    dense.index_put_((rows, cols), values.double(), accumulate=True)
    expected = dense @ x.double() + (before[:, :k].double() if accumulate else 0.0)
    with use(choice), use_threads(threads):
        a = Csr.from_edges(rows, cols, num_rows, num_cols, weight)
        indices = a.indices.long() if wide else a.indices
        aggregate(a.indptr, indices, a.weight, x, out=out[:, :k], accumulate=accumulate)
    torch.testing.assert_close(out[:, :k].double(), expected, atol=2e-4, rtol=1e-4)
    assert torch.equal(out[:, k:], before[:, k:])


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=60, deadline=None)
@given(edges=edges(), weighted=st.booleans(), wide=st.booleans())
def test_sorting_is_stable_and_transposing_twice_changes_nothing(
    choice: str, edges: tuple[Tensor, Tensor, int, int], weighted: bool, wide: bool
) -> None:
    rows, cols, num_rows, num_cols = edges
    weight = torch.arange(rows.numel()).float() if weighted else None
    order = sorted(range(rows.numel()), key=lambda e: (int(rows[e]), int(cols[e])))
    with use(choice):
        a = Csr.from_edges(rows if wide else rows.int(), cols if wide else cols.int(), num_rows, num_cols, weight)
        back = a.transpose().transpose()
    assert a.indices.tolist() == cols[order].tolist()
    assert a.row_index().tolist() == rows[order].tolist()
    assert torch.equal(back.indptr, a.indptr)
    assert torch.equal(back.indices, a.indices)
    if weighted:
        assert a.weight is not None
        assert back.weight is not None
        assert a.weight.tolist() == [float(e) for e in order]
        assert torch.equal(back.weight, a.weight)


@settings(max_examples=30, deadline=None)
@given(edges=edges(), k=WIDTHS)
def test_the_number_of_threads_changes_no_bit(edges: tuple[Tensor, Tensor, int, int], k: int) -> None:
    torch.manual_seed(0)  # the numbers of an example do not depend on the tests before it
    a = Csr.from_edges(*edges, weight=torch.randn(edges[0].numel()))
    x = torch.randn(a.num_cols, k)
    results = []
    for threads in (1, 2, 5):
        with use_threads(threads):
            results.append(a.matmul(x))
    assert all(torch.equal(results[0], other) for other in results[1:])
