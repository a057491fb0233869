"""Graph attention agrees with float64 for any matrix, heads, width and implementation, forward and backward."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halowire.kernels import Csr, InputError
from halowire.kernels.attend import Scores, attend, attend_sources, attend_targets
from tests.property.test_kernels_aggregate import edges
from tests.unit.kernels.choices import CHOICES, use, use_threads

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
    assert_close(x_grad, inputs[0].grad, slack=scale)
    source_grad = (src_grad[:, :, None] * z).sum(0)
    assert_close(source_grad, inputs[1].grad, slack=40.0)
    target_grad = (targets.dst_grad[:, :, None] * z[:n]).sum(0)
    assert_close(target_grad, inputs[2].grad, slack=40.0)


def rows_of(matrix: Csr, start: int, stop: int) -> Csr:
    return matrix.select_rows(torch.arange(start, stop))


def assert_close(got: Tensor, want: Tensor, slack: float = 1.0) -> None:
    """Element by element, of the largest; sums that cancel are as exact as their terms."""
    if want.numel():
        limit = 2e-5 * max(float(want.abs().max()), slack)
        assert float((got.double() - want).abs().max()) <= limit


@settings(max_examples=20, deadline=None)
@given(edges=edges(), heads=HEADS, width=WIDTHS)
def test_the_number_of_threads_changes_no_bit(edges, heads, width):
    a = Csr.from_edges(*edges)
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
