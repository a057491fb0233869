"""Bytes of an epoch's halo rows, all of them and after each reduction that leaves the result exact.

For ``r`` halo rows of all parts, ``c`` rows and partial sums in their place, and rows of ``w_1, w_2, ...`` columns:

    all rows        2 r (b(w_1) + b(w_2) + ...)      forward and backward, b(w) bytes of a row of w columns
    partial sums    2 c (b(w_1) + b(w_2) + ...)
    at home         2 r (b(w_2) + ...)               the first layer's rows do not travel
    both            2 c (b(w_2) + ...)
"""

from __future__ import annotations

from collections.abc import Sequence

from halowire.kernels import Packing

COVER, AT_HOME, BOTH = "partial sums", "first layer at home", "both"
"""The reductions, as manifests name them."""
FLAGS = {COVER: "--wire.cover", AT_HOME: "--wire.first-layer local", BOTH: "both of them"}
RATES = (32, 1)
"""Bits per value for which bytes are told."""

Bytes = dict[str, int]
"""Bytes by bits per value, which are text, as JSON has them."""


def row_bytes(width: int, bits: int) -> int:
    """Bytes of one row of ``width`` values on the wire: ``4 k`` at 32 bits, else the bytes of the packed row."""
    return 4 * width if bits == 32 else Packing(bits).row_bytes(width)


def exchange_bytes(rows: int, widths: Sequence[int]) -> Bytes:
    """Bytes that all workers send in an epoch if ``rows`` of each of ``widths`` columns travel, there and back."""
    return {str(bits): 2 * rows * sum(row_bytes(width, bits) for width in widths) for bits in RATES}


def reduced_bytes(rows: int, covered: int, widths: Sequence[int]) -> dict[str, Bytes]:
    """The same after every reduction, by its name."""
    later = widths[1:]
    return {
        COVER: exchange_bytes(covered, widths),
        AT_HOME: exchange_bytes(rows, later),
        BOTH: exchange_bytes(covered, later),
    }
