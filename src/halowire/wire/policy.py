"""The policy: how rows travel in an epoch, layer and direction. Both ends of a message have the same policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import CODE_BITS, Packing, code_for, row_keys
from halowire.wire.codec import Full, Packed, Uniform
from halowire.wire.rate_schedule import BaseBit

FORWARD, BACKWARD = "forward", "backward"
FULL = 32
BITS = (FULL, 16, 8, 4, 2, 1)
COLUMN_STREAM = 101
NONE, LATE, FRESH = "none", "late", "fresh"
MEAN, AFFINE = "mean", "affine"


@dataclass(frozen=True)
class Rate:
    """What is sent of a halo row at one epoch, layer and direction.

    Attributes:
        bits: bits per value that travels: 32 (float32), 16 (bf16), or 8, 4, 2, 1 quantised per row.
        code: quantiser: ``minmax`` (stochastic, unbiased) or, up to 4 bits, ``levels`` (the means of the values above
            and below the row's mean, or 4 or 16 levels around their middle).
        ratio: VARCO's compression ratio ``c``: ``max(1, int(F / c))`` of ``F`` columns travel, the same for all rows.
        rows: BNS-GCN's share ``p`` of the halo rows that travel.
        graded: ``bits`` is the base; halo nodes of higher in-degree get more bits, up to 8.
        sums: bits of the values of partial sums, where they travel and have more than rows; 0: those of rows.
    """

    bits: int = FULL
    code: str = "minmax"
    ratio: float = 1.0
    rows: float = 1.0
    graded: bool = False
    sums: int = 0

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
        if self.graded and self.bits > 8:
            raise InputError(f"bits by degree start from a base of 1, 2, 4 or 8 bits, not {self.bits}; set --rate.bits")

    def of_sums(self) -> Rate:
        """The rate of partial sums."""
        bits = max(self.sums, self.bits)
        return replace(self, bits=bits, code=code_for(self.code, bits), sums=0)

    def columns(self, width: int) -> int:
        """Number of ``width`` columns that travel, at least one."""
        return max(1, int(width / self.ratio)) if width else 0


EXACT = Rate()
"""The exact rate: float32, all rows and all columns."""


def codec_of(rate: Rate) -> Uniform:
    """The codec for the bits and code of ``rate``, the same for all rows."""
    return Full() if rate.bits == FULL else Packed(Packing(rate.bits, code_for(rate.code, rate.bits)))


def uncorrected(layer: int) -> str:
    """No correction, in any layer."""
    return NONE


@dataclass(frozen=True)
class Freshness:
    """Which halo rows are used: this epoch's, or the previous epoch's while this epoch's rows are under way.

    Attributes:
        delayed: use the messages of the previous epoch (zeros at first).
        sync_every: Sylvie's bound: epoch ``t`` (from 0) is synchronous if ``(t + 1) mod sync_every == 0``; 0: never.
        smoothing: PipeGCN's momentum ``m``: ``avg = m avg + (1 - m) received`` is used instead of ``received``; 0: off.
        threshold: synchronise the next epoch when layer 1's halo rows, before dropout, changed by more than this
            share of their norm; 0: off.
        adaptive: Sylvie's adaptive execution: epochs are synchronous from a rise of the base bit to its next fall.
        gradients: whether halo gradients travel, and which ones are used where rows are delayed: those of the previous
            epoch (``late``), of this epoch (``fresh``), or ``none``.
        damping: factor of gradients that are used late.
        drift: gives for every layer how late rows are corrected, see `Drift`.
        undropped: rows travel before dropout, where they are no products, and the receiver applies the owner's mask.
        silent: no rows and no gradients travel in training.
    """

    delayed: bool = False
    sync_every: int = 0
    smoothing: float = 0.0
    threshold: float = 0.0
    adaptive: bool = False
    gradients: str = LATE
    damping: float = 1.0
    drift: Callable[[int], str] = uncorrected
    undropped: bool = False
    silent: bool = False

    def late(self, direction: str) -> bool:
        """Whether messages of ``direction`` are used one epoch late, but in synchronous epochs."""
        return self.delayed and (direction == FORWARD or self.gradients == LATE)

    def sends(self, direction: str) -> bool:
        """Whether messages of ``direction`` travel in training."""
        return not self.silent and (direction == FORWARD or self.gradients != NONE)

    def synchronous(self, epoch: int) -> bool:
        """Whether ``epoch`` uses its own rows by these settings alone; measured changes may decide so too."""
        return not self.delayed or (self.sync_every > 0 and (epoch + 1) % self.sync_every == 0)


Rates = Callable[[int, int, str], Rate]


def exact_rates(epoch: int, layer: int, direction: str) -> Rate:
    """The exact rate, in every epoch, layer and direction."""
    return EXACT


@dataclass(frozen=True)
class Policy:
    """Rate, freshness and coding of the halo messages.

    Attributes:
        rates: the rate of (epoch, layer, direction).
        freshness: which epoch's rows are used.
        seed: seed of all random numbers on the wire.
        rescale: multiply what arrives by ``F / k`` where only ``k`` of ``F`` columns travel.
        decay: ``g`` of delta coding, ``r(t) = g r(t-1) + Q(h(t) - g r(t-1))``, on forward rows; None: no delta coding.
        base: the base bit that ``rates`` follows where the loss decides the bits; None: the settings alone decide.
        resend_input: send the raw features of the halo in every epoch, as layer 0, instead of once.
        gain: ``a`` of delta coding, the share of the coded change that both ends add to their memory (see `Delta`).
        first_columns: where only ``k`` columns travel, the first ones instead of a random subset.
        piece_rows: messages of at least this many rows leave in pieces; for smaller ones the pieces cost too much.
        cover: partial sums travel in the place of halo rows where that makes fewer rows, see `Cover`.
        codec: the codec for the values that travel; None: the one for the bits of ``rates``.
        once_per_machine: a row that several workers of a machine need crosses the network once, see `HandOn`.
        squeezed: rows that are sent once before training are deflated.
    """

    rates: Rates = exact_rates
    freshness: Freshness = field(default_factory=Freshness)
    seed: int = 0
    rescale: bool = False
    decay: float | None = None
    base: BaseBit | None = None
    resend_input: bool = False
    gain: float = 1.0
    first_columns: bool = False
    piece_rows: int = 8192
    codec: Uniform | None = None
    cover: bool = False
    once_per_machine: bool = False
    squeezed: bool = False

    @property
    def undropped(self) -> bool:
        """Whether rows travel before dropout, where they are no products."""
        return self.decay is not None or self.freshness.undropped

    def columns(self, epoch: int, layer: int, width: int, key: int) -> Tensor | None:
        """The columns of ``width`` that travel, drawn with ``key``, ascending; None: all of them."""
        count = self.rates(epoch, layer, FORWARD).columns(width)
        if self.first_columns and count < width:
            return torch.arange(count)
        return column_subset(width, count, self.seed, epoch, key)


def column_subset(width: int, count: int, seed: int, epoch: int, layer: int) -> Tensor | None:
    """``count`` of ``width`` columns, ascending int64, the same for all nodes and workers; None for all of them.

    Each column gets a random key, and the smallest keys win: a uniform subset without replacement.
    """
    if count >= width:
        return None
    keys = row_keys(seed, epoch, layer, torch.arange(width), COLUMN_STREAM)
    return keys.argsort()[:count].sort().values
