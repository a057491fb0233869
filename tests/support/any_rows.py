"""Rows of any kind, and the places where packed rows go, for properties that must hold for all of them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

WIDTHS = st.one_of(st.integers(1, 70), st.just(256))
SCALES = (1.0, 1e-3, 1e-30, 3e-37, 1e-38, 1e-40, 1e-44, 0.0, 1e30, 1e38, 3e38)


@st.composite
def matrices(draw: st.DrawFn, finite: bool = True, widths: st.SearchStrategy[int] = WIDTHS, most: int = 12) -> Tensor:
    """Up to ``most`` float32 rows of very different ranges, any stride: signed, one-sided, constant or mostly zero."""
    rows, k, gap = draw(st.integers(0, most)), draw(widths), draw(st.integers(0, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(rows, k + gap, generator=generator)
    for row in range(rows):
        kind = draw(st.sampled_from(["signed", "signed", "relu", "constant", "shifted", "zeros"]))
        if kind == "relu":
            x[row].relu_()
        elif kind == "constant":
            x[row] = x[row, 0]
        elif kind == "shifted":
            x[row] += 100.0
        elif kind == "zeros":
            x[row] = torch.where(x[row] > 0, 0.0, -0.0)
        scale = draw(st.sampled_from(SCALES))
        x[row] = (x[row] * scale).clamp(-3.4e38, 3.4e38)
        if not finite and draw(st.booleans()):
            x[row, draw(st.integers(0, k - 1))] = draw(st.sampled_from([float("nan"), float("inf"), float("-inf")]))
    return x[:, :k]


@st.composite
def targets_of(draw: st.DrawFn, rows: int) -> tuple[Tensor, Tensor]:
    """0 to 3 positions for each row, all different, in any order."""
    counts = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    indptr = torch.tensor([0, *counts]).cumsum(0)
    return indptr, torch.tensor(draw(st.permutations(range(sum(counts)))), dtype=torch.int64)
