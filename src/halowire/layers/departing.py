"""Departing: the input of the next layer leaves piece by piece, while a block still computes the rest of it."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from halowire.layers.activation import Activation
from halowire.layers.dense import empty_rows, product
from halowire.layers.departure import Departure, Following
from halowire.layers.step import Step


class Departing:
    """Launches the input ``h = activation(out)`` of ``layer`` piece by piece, while a block computes it.

    ``h W^T`` travels where that layer multiplies first; else, where changes are coded, the rows before dropout, which
    change slowly and to which the receiver applies the owner's dropout; else ``h``.
    """

    def __init__(
        self, out: Tensor, h: Tensor, activation: Activation | None, following: Following, step: Step, layer: int
    ) -> None:
        exchange = step.spread.exchange
        self._exchange, self._layer, self._done = exchange, layer, 0
        self._out, self._h, self._weight, self._activation = out, h, following.weight, activation
        self._drop = None if activation is None else activation.drop
        self._product = None
        if following.multiplies:
            self._product = empty_rows(h, step.spread.num_rows_held, following.weight.shape[0])
        self._delta = self._product is None and activation is not None and step.sends_undropped
        self._undropped = None
        if self._delta and self._drop is not None:
            self._undropped = empty_rows(h, exchange.num_boundary, h.shape[1])
        self._rows = next(rows for rows in (self._product, self._undropped, h) if rows is not None)
        self._loading = exchange.load(layer, self._rows.shape[1], self._delta)

    def add(self, stop: int) -> None:
        """The rows of ``h`` before ``stop`` are computed."""
        new, self._done = slice(self._done, stop), stop
        if self._product is not None:
            product(self._h[new], self._weight.t(), out=self._product[new])
        elif self._undropped is not None:
            assert self._activation is not None
            self._activation.undropped(self._out[new], self._undropped[new])
        self._loading.add(self._rows, stop)

    def _watched(self) -> Tensor | None:
        """The boundary's rows before dropout, where their change decides when to synchronise."""
        if self._undropped is not None or self._drop is None or not self._exchange.watches:
            return self._undropped
        assert self._activation is not None
        boundary = self._exchange.num_boundary
        rows = empty_rows(self._h, boundary, self._h.shape[1])
        self._activation.undropped(self._out[:boundary], rows)
        return rows

    def departure(self) -> Departure:
        """The message, when all boundary rows are computed."""
        flight = self._exchange.launch(self._loading, self._rows, self._watched())
        drop = None if self._undropped is None or self._drop is None else self._drop
        return Departure(flight, self._product, None if drop is None else replace(drop, ids=self._exchange.halo_ids))
