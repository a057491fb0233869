"""Graph attention agrees with float64 for any matrix, heads, width and implementation, forward and backward."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr, Scores, attend, attend_sources, attend_targets
from tests.support.any_edges import edges
from tests.support.choices import CHOICES, use, use_threads

HEADS = st.sampled_from([1, 2, 3, 4, 5, 8, 9, 17, 64])
WIDTHS = st.sampled_from([1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 47, 70])


def reference(rows: Tensor, cols: Tensor, x: Tensor, source: Tensor, target: Tensor, n: int, slope: float) -> Tensor:
    """Row by row in float64; the first ``n`` rows of ``x`` are the targets."""
    z = x.view(x.shape[0], *source.shape)
    src, dst = (z * source).sum(2), (z[:n] * target).sum(2)
    out = []
    for i in range(n):
        j = cols[rows == i]
        weight = F.leaky_relu(src[j] + dst[i], slope).softmax(0)
        out.append((weight[:, :, None] * z[j]).sum(0).reshape(-1))
    return torch.stack(out) if out else x[:0] * source.sum() * target.sum()


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=60, deadline=None)
@given(
    edges=edges(),
    heads=HEADS,
    width=WIDTHS,
    slope=st.sampled_from([0.0, 0.2, 1.0]),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    gap=st.integers(0, 5),
    wide=st.booleans(),
    threads=st.sampled_from([1, 2, 3]),
)
def test_attention_equals_float64(choice, edges, heads, width, slope, scale, gap, wide, threads):
    rows, cols, n, extra = edges
    m, k = n + extra, heads * width
    cols = torch.where(rows % 3 == 0, cols, cols + n) % max(m, 1)
    generator = torch.Generator().manual_seed(rows.numel())
    x = torch.randn(m, k + gap, generator=generator)[:, :k]
    source, target = (torch.randn(heads, width, generator=generator) * scale / width**0.5 for _ in range(2))
    grad = torch.randn(n, k + gap, generator=generator)[:, :k]
    inputs = [value.double().contiguous().requires_grad_() for value in (x, source, target)]
    want = reference(rows, cols, *inputs, n, slope)
    (want * grad).sum().backward()

    with use(choice), use_threads(threads):
        a = Csr.from_edges(rows, cols, n, m)
        back = a.transpose()
        if wide:
            a, back = (Csr(csr.indptr, csr.indices.long(), None, csr.num_cols) for csr in (a, back))
        z = x.reshape(m, heads, width)
        src, dst = (z * source).sum(2), (z[:n] * target).sum(2)
        got = attend(a, x, src, dst, slope)
        again = attend(a, x, src, dst, slope, backward=False)
        targets = attend_targets(grad, got, slope)
        scores = Scores(source, target)
        own = rows_of(back, 0, n), rows_of(back, n, m)
        parts = [
            attend_sources(own[0], grad, x[:n], src[:n], targets, slope, scores, are_targets=True),
            attend_sources(own[1], grad, x[n:], src[n:], targets, slope, scores, are_targets=False),
        ]
    assert again.positive is None
    assert torch.equal(again.out, got.out)
    assert_close(got.out, want.detach())
    x_grad, src_grad = (torch.cat(pair) for pair in zip(*parts, strict=True))
    bounds = Bounds.of(rows, cols, x, source, target, grad)
    assert_within(x_grad, inputs[0].grad, bounds.x)
    source_grad = (src_grad[:, :, None] * z).sum(0)
    assert_within(source_grad, inputs[1].grad, bounds.source)
    target_grad = (targets.dst_grad[:, :, None] * z[:n]).sum(0)
    assert_within(target_grad, inputs[2].grad, bounds.target)


class Bounds(NamedTuple):
    """How far float32 may be from float64, value by value.

    A score is off by at most ``eps (C + 2)`` of the sum of its absolute terms, a weight by that times itself; every
    gradient then by that of the sum of its absolute terms. Weights are at most 1 here, whichever way scores fall.
    """

    x: Tensor
    source: Tensor
    target: Tensor

    @staticmethod
    def of(rows: Tensor, cols: Tensor, x: Tensor, source: Tensor, target: Tensor, grad: Tensor) -> Bounds:
        (heads, width), n, m = source.shape, grad.shape[0], x.shape[0]
        z, g = (value.double().reshape(-1, heads, width).abs() for value in (x, grad))
        source, target = source.double().abs(), target.double().abs()
        top = float(((z * source).sum(2).amax(0) + (z * target).sum(2).amax(0)).max()) if m else 0.0
        part = 2.0**-23 * ((width + 2) * (1 + 2 * top) + rows.numel() + 8)
        # <grad_i, x_j> - <grad_i, out_i>, and out_i is a mean of sources of i.
        edge = (g[rows] * z[cols]).sum(2) + (g * most(rows, z[cols], n)).sum(2)[rows]
        at_source = torch.zeros(m, heads, dtype=torch.double).index_add(0, cols, edge)
        at_target = torch.zeros(m, heads, dtype=torch.double).index_add(0, rows, edge)
        direct = torch.zeros_like(z).index_add(0, cols, g[rows])
        whole = direct + at_source[:, :, None] * source + at_target[:, :, None] * target
        return Bounds(
            part * whole.reshape(x.shape),
            part * (at_source[:, :, None] * z).sum(0),
            part * (at_target[:, :, None] * z).sum(0),
        )


def most(rows: Tensor, values: Tensor, n: int) -> Tensor:
    """The largest of ``values`` ``[E, ...]`` in each row."""
    places = rows.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return values.new_zeros(n, *values.shape[1:]).scatter_reduce(0, places, values, "amax")


def rows_of(matrix: Csr, start: int, stop: int) -> Csr:
    return matrix.select_rows(torch.arange(start, stop))


def assert_close(got: Tensor, want: Tensor) -> None:
    """Element by element, of the largest."""
    if want.numel():
        limit = 2e-5 * max(float(want.abs().max()), 1.0)
        assert float((got.double() - want).abs().max()) <= limit


def assert_within(got: Tensor, want: Tensor, bound: Tensor) -> None:
    """Element by element; nothing that is not a number passes."""
    excess = (got.double() - want).abs() - bound
    assert bool((excess <= 1e-12).all()), f"{float(excess.max())} beyond the bound"


@settings(max_examples=20, deadline=None)
@given(edges=edges(), heads=HEADS, width=WIDTHS)
def test_the_number_of_threads_changes_no_bit(edges, heads, width):
    a = Csr.from_edges(*edges)
    torch.manual_seed(0)  # the numbers of an example do not depend on the tests before it
    x, src, dst = torch.randn(a.num_cols, heads * width), torch.randn(a.num_cols, heads), torch.randn(a.num_rows, heads)
    results = []
    for threads in (1, 2, 5):
        with use_threads(threads):
            results.append(attend(a, x, src, dst, 0.2))
    for other in results[1:]:
        assert torch.equal(results[0].out, other.out)
        assert torch.equal(results[0].nodes, other.nodes)


@pytest.mark.parametrize("choice", CHOICES)
def test_large_scores_neither_overflow_nor_vanish(choice):
    a = Csr.from_edges(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]), 2, 3)
    x = torch.tensor([[1.0], [2.0], [3.0]])
    with use(choice):
        out = attend(a, x, torch.tensor([[1e4], [1e4], [-1e5]]), torch.tensor([[1e3], [0.0]]), 0.2).out
    assert out.tolist() == [[1.5], [3.0]]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("own", [100.0, 1e4, -1e4])
def test_gradients_of_sources_with_large_scores_are_numbers(choice, own):
    # One edge, so that most lanes of a vector hold no edge: exp(100) overflows in them.
    a = Csr.from_edges(torch.tensor([0]), torch.tensor([1]), 1, 2)
    x, src, dst = torch.tensor([[2.0], [3.0]]), torch.tensor([[0.0], [own]]), torch.zeros(1, 1)
    grad, scores = torch.tensor([[5.0]]), Scores(torch.ones(1, 1), torch.ones(1, 1))
    with use(choice):
        targets = attend_targets(grad, attend(a, x, src, dst, 0.2), 0.2)
        got, src_grad = attend_sources(a.transpose(), grad, x, src, targets, 0.2, scores, are_targets=False)
    assert got.tolist() == [[0.0], [5.0]]
    assert src_grad.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("choice", CHOICES)
def test_what_is_not_a_number_shows(choice):
    a = Csr.from_edges(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]), 2, 3)
    x = torch.ones(3, 4)
    with use(choice):
        out = attend(a, x, torch.tensor([[torch.nan], [1.0], [1.0]]), torch.zeros(2, 1), 0.2).out
    assert out[0].isnan().all()
    assert out[1].tolist() == [1.0] * 4


def test_misuse_is_refused():
    a = Csr.from_edges(torch.tensor([0]), torch.tensor([1]), 2, 3)
    x, src, dst = torch.zeros(3, 4), torch.zeros(3, 2), torch.zeros(2, 2)
    with pytest.raises(InputError, match="slope"):
        attend(a, x, src, dst, -0.1)
    with pytest.raises(InputError, match="column for each head"):
        attend(a, x, torch.zeros(3, 3), dst, 0.2)
    with pytest.raises(InputError, match="dst is"):
        attend(a, x, src, torch.zeros(2, 1), 0.2)
    with pytest.raises(InputError, match="backward=False"):
        attend_targets(torch.zeros(2, 4), attend(a, x, src, dst, 0.2, backward=False), 0.2)
    found = attend(a, x, src, dst, 0.2)
    with pytest.raises(InputError, match="nodes is"):
        attend_targets(torch.zeros(2, 4), found._replace(nodes=found.nodes[:1]), 0.2)
    targets, scores = attend_targets(torch.zeros(2, 4), found, 0.2), Scores(torch.zeros(2, 2), torch.zeros(2, 2))
    with pytest.raises(InputError, match="among 2 targets"):
        attend_sources(a.transpose(), torch.zeros(2, 4), x, src, targets, 0.2, scores, are_targets=True)
