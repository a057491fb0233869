"""Edges of any sparse matrix, for properties that must hold for all of them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor


@st.composite
def edges(draw: st.DrawFn, most: int = 40, entries: int = 400) -> tuple[Tensor, Tensor, int, int]:
    """Rows and columns of any number of edges, with empty rows, duplicates and, often, one row that has most.

    There are up to ``most`` rows and columns, and up to ``entries`` edges.
    """
    num_rows, num_cols = draw(st.integers(0, most)), draw(st.integers(0, most))
    count = draw(st.integers(0, entries)) if num_rows and num_cols else 0
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    rows = torch.randint(0, max(num_rows, 1), (count,), generator=generator)
    cols = torch.randint(0, max(num_cols, 1), (count,), generator=generator)
    if draw(st.booleans()):
        rows[: count * 3 // 4] = max(num_rows - 1, 0)
    return rows, cols, num_rows, num_cols
