"""The policy of a wire: everything that both ends must agree on, and so derive from what both of them know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.wire.base_bit import BaseBit
from halowire.wire.codec import Uniform
from halowire.wire.freshness import Freshness
from halowire.wire.memory import Delta
from halowire.wire.rate import EXACT, FORWARD, Rate
from halowire.wire.subset import column_subset

Rates = Callable[[int, int, str], Rate]


def exact_rates(epoch: int, layer: int, direction: str) -> Rate:
    """float32, all rows, all columns, always."""
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
        base: the base bit that ``rates`` follows, where the losses decide it; None: the settings alone do.
        resend_input: send the raw features of the halo in every epoch, as layer 0, instead of once.
        gain: share ``a`` of the coded change that both ends keep of it (see :class:`halowire.wire.memory.Delta`).
        first_columns: where only ``k`` columns travel, the first ones instead of a random subset.
        piece_rows: messages of so many rows leave in pieces; smaller ones would only pay for more of them.
        codec: how the values that travel are coded, in place of the bits of ``rates``; None: by those bits.
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

    def __post_init__(self) -> None:
        if self.decay is not None and not 0 <= self.decay <= 1:
            raise InputError(f"--rate.decay is {self.decay}; it must lie in 0 <= g <= 1")
        if not 0 < self.gain <= 1:
            raise InputError(f"--rate.gain is {self.gain}; it must lie in 0 < a <= 1")

    @property
    def delta(self) -> Delta | None:
        """The rule of delta coding; None: rows travel as they are."""
        return None if self.decay is None else Delta(self.decay, self.gain)

    def columns(self, epoch: int, layer: int, width: int, key: int | None = None) -> Tensor | None:
        """The columns of ``width`` that travel, ascending; None: all. ``key`` draws them, that of ``layer`` if None."""
        count = self.rates(epoch, layer, FORWARD).columns(width)
        if self.first_columns and count < width:
            return torch.arange(count)
        return column_subset(width, count, self.seed, epoch, layer if key is None else key)
