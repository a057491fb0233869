"""Departure: the boundary rows of a layer's input, launched as soon as they exist, often by the block before it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from halowire.kernels import Drop
from halowire.layers.dense import empty_rows, product
from halowire.layers.propagation import Propagation
from halowire.wire import Flight


@dataclass(frozen=True, eq=False)
class Departure:
    """A forward exchange under way.

    Attributes:
        flight: the message whose rows are to be used (None: there is none yet, with delayed rows).
        product: ``x W^T`` ``[n, out]`` with only its boundary rows filled, where that is what travels; None for ``x``.
            With attention it has ``n + h`` rows, the last for the halo's.
        drop: the dropout that the receiver applies, where rows travel before it.
    """

    flight: Flight | None
    product: Tensor | None = None
    drop: Drop | None = None


@dataclass(frozen=True, eq=False)
class Following:
    """The layer after a block, whose exchange the block launches: its ``W``, and whether ``x W^T`` is what travels."""

    weight: Tensor
    multiplies: bool


def narrows(weight: Tensor) -> bool:
    """Whether ``x W^T`` is narrower than ``x``: then it is what travels and is aggregated."""
    return weight.shape[0] < weight.shape[1]


def depart(rows: Tensor, following: Following, spread: Propagation, layer: int) -> Departure:
    """Launch the exchange of ``layer``, which is ``following``, from ``rows`` ``[>= boundary, in]`` of its input."""
    if not following.multiplies:
        return Departure(spread.exchange.start(rows, layer))
    boundary, weight = spread.exchange.num_boundary, following.weight
    z = empty_rows(rows, spread.num_rows_held, weight.shape[0])
    product(rows[:boundary], weight.t(), out=z[:boundary])
    return Departure(spread.exchange.start(z, layer), z)
