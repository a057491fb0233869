"""One pass through a model: over which graph, with which random numbers, and what is on the wire between blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from halowire.kernels import Drop
from halowire.layers.departure import Departure
from halowire.layers.propagation import Propagation
from halowire.layers.returning import Returning


@dataclass(frozen=True, eq=False)
class Step:
    """The context of one pass.

    ``departed`` holds, by layer, the exchanges that the block before the layer launched, until the layer takes them;
    ``returning`` the halo gradients that the layer sent, until the block before it takes those.
    """

    spread: Propagation
    ids: Tensor
    seed: int = 0
    epoch: int = 0
    training: bool = False
    departed: dict[int, Departure] = field(default_factory=dict)
    returning: dict[int, Returning] = field(default_factory=dict)

    def drop(self, p: float, layer: int) -> Drop | None:
        """The dropout of ``layer`` in this pass, or None where nothing is dropped."""
        return Drop(p, self.seed, self.epoch, layer, self.ids) if self.training and p > 0 else None

    @property
    def sends_undropped(self) -> bool:
        """Whether rows travel before dropout in this pass."""
        return self.training and self.spread.exchange.sends_undropped
