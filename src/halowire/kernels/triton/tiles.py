"""The rows that a program of a kernel over rows takes, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_block(rows, K: tl.constexpr, M: tl.constexpr, KP: tl.constexpr):
    """The program's ``M`` rows and ``KP`` columns; which of its rows are among ``rows``, and which places of its tile.

    Returns row numbers int64 ``[M]``, bool ``[M]``, column numbers ``[KP]`` and bool ``[M, KP]``.
    """
    row = (tl.program_id(0) * M + tl.arange(0, M)).to(tl.int64)
    live = row < rows
    cols = tl.arange(0, KP)
    return row, live, cols, live[:, None] & (cols < K)[None, :]
