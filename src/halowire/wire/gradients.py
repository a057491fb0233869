"""Weight gradients summed in few bits per value, with error feedback; every worker gets the same sum."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.events import GRADIENT
from halowire.kernels import Packing, pack_rows, stream_key, unpack_rows
from halowire.wire.codec import Packed
from halowire.wire.transport import Transport

WIDTH = 256
"""Values in a row of the packed vector."""
STREAM = 5000
"""First stream of the random numbers of weight gradients."""


class GradientCodec:
    """Sums a flat float32 vector over all workers in 16, 8 or 1 bits per value.

    The vector is cut into rows of 256 values, and the rows into one range per worker, its owner. First every worker
    sends ``Q(v)``, ``v = gradient + e``, range by range to the owners, and keeps the error ``e = v - Q(v)`` for the
    next epoch; an owner adds up what arrives in rank order. Then the owner sends ``Q(s)``, ``s = sum + e'``, to all,
    uses ``Q(s)`` itself too, and keeps ``e' = s - Q(s)``. Each worker sends ``2 (P - 1) / P`` of the packed vector, and
    ``2 (P - 1)`` headers. One bit per value uses the code ``levels``.
    """

    def __init__(self, bits: int, transport: Transport, seed: int) -> None:
        self._packing = Packing(bits, "levels" if bits == 1 else "minmax")
        self._name = Packed(self._packing).wire_name
        self._transport = transport
        self._seed = seed
        self.state: dict[str, Tensor] = {}

    def all_reduce(self, vector: Tensor, epoch: int, where: str) -> None:
        """Replace ``vector`` by its sum over all workers, as the code gives it."""
        if self._transport.size == 1 or not vector.numel():
            return
        rows = torch.nn.functional.pad(vector, (0, -vector.numel() % WIDTH)).view(-1, WIDTH)
        size = self._transport.size
        counts = [len(rows) * (rank + 1) // size - len(rows) * rank // size for rank in range(size)]
        with self._transport.ledger.account(GRADIENT):
            total = self._sum_segment(rows, counts, epoch, where)
            segments = self._share_segment(total, counts, epoch, where)
        vector.copy_(torch.cat(segments).view(-1)[: vector.numel()])

    def _sum_segment(self, rows: Tensor, counts: list[int], epoch: int, where: str) -> Tensor:
        """Send every owner its range of rows; returns the sum over all workers of this worker's own range."""
        rank = self._transport.rank
        wanted, packed, _ = self._code("gradient.sent", rows, epoch, 2 * rank)
        own = torch.split(wanted, counts)[rank]
        torch.split(self.state["gradient.sent"], counts)[rank].zero_()  # this worker's own range does not travel
        arrived = self._swap(list(torch.split(packed, counts)), [counts[rank]] * len(counts), epoch, where)
        arrived[rank] = own
        return torch.stack(arrived).sum(0)

    def _share_segment(self, total: Tensor, counts: list[int], epoch: int, where: str) -> list[Tensor]:
        """Send this worker's own range to all; returns all ranges, as every worker sees them."""
        rank = self._transport.rank
        _, packed, seen = self._code("gradient.shared", total, epoch, 2 * rank + 1)
        segments = self._swap([packed] * len(counts), counts, epoch, where)
        segments[rank] = seen
        return segments

    def _swap(self, parts: list[Tensor], counts: list[int], epoch: int, where: str) -> list[Tensor]:
        """Send ``parts[p]`` to every other worker ``p``; returns the decoded rows of each, none for this worker."""
        others = [peer for peer in range(len(parts)) if peer != self._transport.rank]
        sent = [len(part) if peer in others else 0 for peer, part in enumerate(parts)]
        expected = [count if peer in others else 0 for peer, count in enumerate(counts)]
        rows = torch.cat([parts[peer] for peer in others])
        data = self._transport.swap(rows, sent, expected, where, epoch, self._name)
        return list(torch.split(unpack_rows(data, self._packing, WIDTH), expected))

    def _code(self, name: str, rows: Tensor, epoch: int, stream: int) -> tuple[Tensor, Tensor, Tensor]:
        """``v = rows + e``, its bytes ``[n, row_bytes]`` and ``Q(v)``; the state ``name`` keeps ``e = v - Q(v)``."""
        kept = self.state.get(name)
        error = torch.zeros_like(rows) if kept is None else kept.to(rows.device)  # a resumed run reads it on the CPU
        self.state[name] = error
        wanted = rows + error
        packed = torch.empty(len(rows), self._packing.row_bytes(WIDTH), dtype=torch.uint8, device=rows.device)
        key = stream_key(self._seed, epoch, 0, STREAM + stream)
        pack_rows(wanted, self._packing, key, torch.arange(len(rows), device=rows.device), packed)
        seen = unpack_rows(packed, self._packing, WIDTH)
        error.copy_(wanted - seen)
        return wanted, packed, seen
