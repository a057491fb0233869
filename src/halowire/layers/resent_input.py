"""Layer 0 as VARCO's code has it: the raw features of the halo are sent in every epoch, as the wire codes them."""

from __future__ import annotations

from torch import Tensor

from halowire.layers.dense import empty_rows
from halowire.layers.features import Features
from halowire.layers.gathered_input import Gathered
from halowire.layers.layer_map import Weights
from halowire.layers.step import Step


class Resent(Gathered):
    """``A x`` of the head is made anew: ``inner_head @ x``, computed once, plus ``halo_head @ x_halo`` as it arrives.

    What does not travel (columns, rows) is zero. Backward sends nothing: raw features have no gradient.
    """

    def __init__(self, features: Features, gathered: Tensor, weights: Weights, step: Step, layer: int) -> None:
        super().__init__(features, gathered, weights, step.spread)
        self._exchange, self._halo, self._layer = step.spread.exchange, step.spread.halo_head, layer

    def open(self) -> None:
        """Launch the features."""
        own, inner = self._features.own.values, self._features.inner_head
        assert isinstance(own, Tensor) and inner is not None
        self._flight = self._exchange.start(own, self._layer)
        self._head = empty_rows(inner, *inner.shape).copy_(inner)

    def arrive(self, out: Tensor) -> None:
        """The halo's part is added when it is here."""
        self._exchange.finish(self._flight, self._halo, self._head)
