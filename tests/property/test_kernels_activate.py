"""The fused activation: native code equals the twin, and its dropout mask bit by bit, for any shape and SIMD level."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.kernels import Drop, activate, activate_backward
from halowire.kernels.activate import activate_backward_twin, activate_twin
from halowire.kernels.counter_random import drop_factor
from tests.support.choices import CHOICES, use, use_threads

WIDTHS = st.one_of(st.integers(1, 70), st.sampled_from([128, 130, 256]))


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(0, 300),
    k=WIDTHS,
    p=st.floats(0.0, 0.99),
    counters=st.tuples(st.integers(0, 2**62), st.integers(0, 10**6), st.integers(0, 100)),
    ids_seed=st.integers(0, 2**31),
)
def test_masks_are_bit_identical(
    choice: str, n: int, k: int, p: float, counters: tuple[int, int, int], ids_seed: int
) -> None:
    ids = torch.randint(0, 2**62, (n,), generator=torch.Generator().manual_seed(ids_seed))
    drop = Drop(p, *counters, ids)
    with use(choice):
        out, _ = activate(torch.ones(n, k), None, None, False, drop)
    assert torch.equal(out, drop_factor(drop, k))


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 300),
    k=WIDTHS,
    norm=st.booleans(),
    relu=st.booleans(),
    p=st.sampled_from([None, 0.0, 0.3, 0.9]),
    gap=st.integers(0, 5),
    seed=st.integers(0, 2**31),
    threads=st.sampled_from([1, 3]),
)
def test_native_equals_the_twin(
    choice: str, n: int, k: int, norm: bool, relu: bool, p: float | None, gap: int, seed: int, threads: int
) -> None:
    torch.manual_seed(seed)
    # A spread of at least one per row: with two nearly equal columns, 1/std magnifies rounding without bound.
    torch.manual_seed(0)  # the numbers of an example do not depend on the tests before it
    x = (torch.randn(n, k + gap) + torch.arange(k + gap) % 5 * 2)[:, :k]
    grad = torch.randn(n, k + gap)[:, :k]
    gamma, beta = (torch.randn(k), torch.randn(k)) if norm else (None, None)
    drop = None if p is None else Drop(p, seed, 1, 2, torch.arange(n))
    y, stats = activate_twin(x, gamma, beta, relu, drop, 1e-2, torch.empty(n, k))
    smooth, _ = activate_twin(x, gamma, beta, False, None, 1e-2, torch.empty(n, k))
    # Where the ReLU bends, rounding decides between two right answers.
    grad = grad.masked_fill(smooth.abs() < 1e-4, 0.0) if relu else grad
    expected = activate_backward_twin(grad, x, stats, gamma, beta, relu, drop)
    with use(choice), use_threads(threads):
        out, found = activate(x, gamma, beta, relu, drop, 1e-2)
        grads = activate_backward(grad, x, found, gamma, beta, relu, drop)
    torch.testing.assert_close(out, y, atol=1e-4, rtol=1e-4)
    for mine, twins in zip((found, *grads), (stats, *expected), strict=True):
        assert (mine is None) == (twins is None)
        if mine is not None:
            torch.testing.assert_close(mine, twins, atol=1e-3, rtol=1e-3)
