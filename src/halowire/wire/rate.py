"""The rate: how many bits a value takes on the wire, and which of the values travel at all."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.errors import InputError
from halowire.kernels import CODE_BITS

FULL, HALF = 32, 16
BITS = (FULL, HALF, 8, 4, 2, 1)
FORWARD, BACKWARD = "forward", "backward"
DIRECTIONS = (FORWARD, BACKWARD)


@dataclass(frozen=True)
class Rate:
    """What is sent of a halo row at one epoch, layer and direction.

    Attributes:
        bits: bits per value that travels: 32 (float32), 16 (bf16), or 8, 4, 2, 1 quantised per row.
        code: quantiser: ``minmax`` (stochastic, unbiased) or, up to 4 bits, ``levels`` (two conditional means, or 4 or
            16 levels around their middle).
        ratio: VARCO's compression ratio ``c``: ``max(1, int(F / c))`` of ``F`` columns travel, the same for all rows.
        rows: BNS-GCN's share ``p`` of the halo rows that travel.
        graded: ``bits`` is the base; halo nodes of higher in-degree get more, up to 8.
    """

    bits: int = FULL
    code: str = "minmax"
    ratio: float = 1.0
    rows: float = 1.0
    graded: bool = False

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise InputError(f"a value cannot travel in {self.bits} bits; use one of {', '.join(map(str, BITS))}")
        if self.code not in CODE_BITS:
            raise InputError(f"code {self.code!r} is unknown; use one of {', '.join(CODE_BITS)}")
        if self.bits < 16 and self.bits not in CODE_BITS[self.code]:
            takes = ", ".join(map(str, CODE_BITS[self.code]))
            raise InputError(f"the code `{self.code}` takes {takes} bits, not {self.bits}; use `minmax`")
        if not self.ratio >= 1:
            raise InputError(f"the ratio of columns is {self.ratio}; it must be at least 1 (all columns)")
        if not 0 < self.rows <= 1:
            raise InputError(f"the share of rows is {self.rows}; it must lie in 0 < p <= 1")
        if self.graded and self.bits > 8:
            raise InputError(f"bits by degree start from a base of 1, 2, 4 or 8 bits, not {self.bits}; set --rate.bits")
        if self.graded and self.rows < 1:
            raise InputError("bits by degree rank all rows of a list, but only some are sampled; drop one of the two")

    def columns(self, width: int) -> int:
        """How many of ``width`` columns travel: at least one."""
        return max(1, int(width / self.ratio)) if width else 0


EXACT = Rate()
