"""Departure: a layer's rows leave piece by piece; here are also the names of the ways to hide their travel time."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from halowire.layers import Incoming, Kept, Layer, Rows, empty_rows
from halowire.wire import HaloExchange

BOUNDARY_FIRST = "boundary first"
"""Rows leave once the segment's boundary is computed; they travel while its interior and own sums are computed."""


AT_HOME = "at home"
"""Nothing travels: every worker computes the layer's halo rows itself."""
NOT_HIDDEN = "not hidden"
"""The layer waits for its halo rows, and nothing is computed while they travel."""


def plain_overlap(reason: str) -> str:
    """Rows leave when the layer's whole input is computed; they travel only while its own rows are summed."""
    return f"plain overlap: {reason}"


class Departure:
    """Launches the rows that ``layer`` sends to the halos of other parts.

    The rows are ``a``, ``[n, width]``. With delta coding, where ``a`` are the activated rows, they travel before
    dropout, because under a new mask in every epoch they would not change slowly; the receiver applies the owner's
    dropout.
    """

    def __init__(self, layer: Layer, kept: Kept, a: Tensor, rows: Rows, exchange: HaloExchange) -> None:
        """``rows`` are all rows of the part, and ``kept`` and ``a`` belong to them."""
        self._activation = layer.activation
        self._exchange = exchange
        self._kept = kept
        self._a = a
        self._drop = rows.drop(layer.activation.p, layer.activation.layer)
        self._done = 0
        self._undropped: Tensor | None = None
        delta = rows.training and exchange.sends_undropped and not layer.multiplies
        if delta and self._drop is not None:
            self._undropped = empty_rows(a, exchange.num_boundary, a.shape[1])
        self._message = exchange.load(layer.number, a.shape[1], delta)

    def add(self, stop: int) -> None:
        """Send the pieces that are complete, now that the rows of ``a`` before ``stop`` are computed."""
        new = slice(self._done, stop)
        self._done = stop
        if self._undropped is not None:
            assert self._kept.u is not None
            self._activation.undropped(self._kept.u[new], self._undropped[new])
        self._exchange.add(self._message, self._a if self._undropped is None else self._undropped, stop)

    def close(self) -> Incoming:
        """Send what is left, now that all boundary rows are computed; returns what fills this worker's halo."""
        rows = self._a if self._undropped is None else self._undropped
        message = self._exchange.launch(self._message, rows, self._watched())
        if self._undropped is None or self._drop is None:
            return Incoming(message)
        return Incoming(message, replace(self._drop, ids=self._exchange.halo_ids))

    def _watched(self) -> Tensor | None:
        """The boundary's rows before dropout, where their change decides when to synchronise."""
        if self._undropped is not None or self._drop is None or not self._exchange.watches:
            return self._undropped
        assert self._kept.u is not None
        sent = self._kept.u[: self._exchange.num_boundary]
        rows = empty_rows(sent, *sent.shape)
        self._activation.undropped(sent, rows)
        return rows
