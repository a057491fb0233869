"""The hybrid's exchange: the parts of a stage swap the rows of the chunks they have in work, in lock-step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.schedules.lists import Route, Routes
from halowire.schedules.terms import MEASURE_EVERY, MEASURED_ROWS, RowTerms, relative_error
from halowire.wire import BACKWARD, FORWARD, Pending, Policy, Source, Transport
from halowire.wire.memory import Memory

FORWARD_STREAM, BACKWARD_STREAM = 500, 1500


@dataclass(frozen=True, eq=False)
class Swap:
    """A message under way: its terms, and the halo places of the rows that arrive."""

    pending: Pending
    terms: RowTerms
    places: Tensor
    layer: int
    direction: str


class ChunkExchange:
    """``start`` sends the rows of this part's chunk that peers need, ``finish`` writes theirs into the halo."""

    def __init__(self, routes: Routes, transport: Transport, policy: Policy, ids: Tensor) -> None:
        """``ids``: original ids of the owned rows."""
        self.routes, self._transport, self._policy, self._ids = routes, transport, policy, ids
        self._memory = Memory(torch.device("cpu"))

    def start(self, rows: Tensor, chunks: list[int], epoch: int, layer: int, direction: str) -> Swap:
        """Launch from the owned ``rows`` ``[n, k]``; ``chunks``: what every part has in work."""
        transport, ledger = self._transport, self._transport.ledger
        route = self.routes.forward if direction == FORWARD else self.routes.backward
        mine = chunks[transport.rank]
        terms = self._terms(epoch, layer, direction, rows.shape[1])
        send = [peer[mine] for peer in route.send]
        index, places = torch.cat(send), self.places(route, chunks)
        sizes = [part.numel() * terms.row_bytes for part in send]
        expected = [peer[chunk].numel() * terms.row_bytes for peer, chunk in zip(route.take, chunks, strict=True)]
        with ledger.phase("pack"):
            out = self._memory.buffer(sum(sizes), layer, direction, "send")
            into = self._memory.buffer(sum(expected), layer, direction, "recv")
            transport.settle(out)
            terms.codec.encode(rows, Source(self._ids, index, None, terms.columns, terms.stream), out)
            if epoch % MEASURE_EVERY == 0 and mine == 0 and not terms.plain:
                self._measure(rows, index[:MEASURED_ROWS], out, terms, layer, direction)
        ledger.sent(out.numel(), layer, direction)
        where = f"epoch {epoch}, layer {layer}, {direction}, chunk {mine}"
        pending = transport.all_to_all(out, sizes, into, expected, where)
        return Swap(pending, terms, places, layer, direction)

    def finish(self, swap: Swap, halo: Tensor) -> None:
        """Wait, and write what arrived to its places in ``halo`` ``[h, k]``; columns not sent become zero."""
        ledger, terms = self._transport.ledger, swap.terms
        with ledger.waiting(swap.layer, swap.direction):
            data = self._transport.wait(swap.pending)
        with ledger.phase("pack"):
            _write(data, terms, halo, swap.places)

    def places(self, route: Route, chunks: list[int]) -> Tensor:
        """Where in the halo the rows of the chunks in work are."""
        return torch.cat([peer[chunk] for peer, chunk in zip(route.take, chunks, strict=True)])

    def _measure(self, rows: Tensor, index: Tensor, sent: Tensor, terms: RowTerms, layer: int, direction: str) -> None:
        """Book the error of the first rows of a message, as their receiver sees them."""
        seen = torch.empty(index.numel(), rows.shape[1])
        _write(sent[: index.numel() * terms.row_bytes], terms, seen, torch.arange(index.numel()))
        if (error := relative_error(rows[index], seen)) is not None:
            self._transport.ledger.error(layer, direction, error)

    def _terms(self, epoch: int, layer: int, direction: str, width: int) -> RowTerms:
        stream = FORWARD_STREAM if direction == FORWARD else BACKWARD_STREAM
        return RowTerms.agree(self._policy, epoch, layer, direction, width, key=layer, stream=stream, delta=False)


def _write(data: Tensor, terms: RowTerms, halo: Tensor, places: Tensor) -> None:
    """Decode ``data`` into the rows ``places`` of ``halo``; columns not sent become zero."""
    values = terms.codec.decode(data, terms.sent_columns)
    if terms.factor != 1:
        values = values * terms.factor
    if terms.columns is None:
        halo[places] = values
    else:
        halo[places] = 0
        halo[places[:, None], terms.columns[None, :]] = values


__all__ = ["BACKWARD", "FORWARD", "ChunkExchange", "Swap"]
