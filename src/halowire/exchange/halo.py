"""The halo exchange: owned rows out to the peers' halos, halo gradients back to their owners."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.exchange.codec import Codec, Full
from halowire.exchange.transport import Pending, Transport
from halowire.kernels import Csr
from halowire.partition import Shard


@dataclass(frozen=True)
class Flight:
    """A halo message under way, and what its rows will be."""

    pending: Pending
    columns: int
    layer: int
    direction: str


class HaloExchange:
    """Exchanges rows for one shard: ``start`` encodes and launches, ``finish`` waits and decodes.

    Forward, worker ``p`` sends ``x[send_index]`` and receives its ``num_halo`` rows. Backward, it sends the gradients
    of its halo rows and adds what returns: ``out[b] += sum of the returned rows of b``, over all peers that hold ``b``.
    The sum runs over a CSR matrix in rank order, so that it is the same in every run. Send and receive buffers
    belong to the exchange and are reused every epoch.
    """

    def __init__(self, shard: Shard, transport: Transport, device: torch.device, codec: Codec | None = None) -> None:
        self.transport = transport
        self.codec = codec or Full()
        self.num_halo = sum(shard.recv_counts)
        self._send_index = shard.send_index.to(device)
        self._send_counts = shard.send_counts
        self._recv_counts = shard.recv_counts
        self._num_boundary = shard.num_boundary
        sent = shard.send_index.numel()
        returns = Csr.from_edges(shard.send_index, torch.arange(sent), shard.num_boundary, sent)
        self._returns = returns.to(device)
        self._device = device
        self._buffers: dict[tuple[int, str, str], Tensor] = {}

    def start(self, rows: Tensor, layer: int) -> Flight:
        """Launch the owned ``rows`` ``[n, k]`` towards the peers' halos."""
        return self._launch(rows, self._send_index, self._send_counts, self._recv_counts, layer, "forward")

    def finish(self, flight: Flight) -> Tensor:
        """Wait for the halo rows, ``[h, k]``; they stay valid until the next exchange of this layer."""
        return self._land(flight)

    def start_back(self, halo_grad: Tensor, layer: int) -> Flight:
        """Launch the gradients of the halo rows ``[h, k]`` towards their owners."""
        return self._launch(halo_grad, None, self._recv_counts, self._send_counts, layer, "backward")

    def finish_back(self, flight: Flight, out: Tensor) -> None:
        """Wait for the returned gradients and add them to the owned rows ``out`` ``[n, k]``."""
        returned = self._land(flight)
        with self.transport.ledger.phase("pack"):
            self._returns.matmul(returned, out=out[: self._num_boundary], accumulate=True)

    def _launch(
        self,
        rows: Tensor,
        index: Tensor | None,
        send_counts: tuple[int, ...],
        recv_counts: tuple[int, ...],
        layer: int,
        direction: str,
    ) -> Flight:
        columns = rows.shape[1]
        width = self.codec.row_bytes(columns)
        ledger = self.transport.ledger
        with ledger.phase("pack"):
            send = self._buffer(layer, direction, "send", width * sum(send_counts))
            received = self._buffer(layer, direction, "recv", width * sum(recv_counts))
            self.codec.encode(rows, index, send)
        ledger.sent(send.numel(), layer, direction)
        pending = self.transport.all_to_all(
            send,
            [width * count for count in send_counts],
            received,
            [width * count for count in recv_counts],
            f"layer {layer}, {direction}",
        )
        return Flight(pending, columns, layer, direction)

    def _land(self, flight: Flight) -> Tensor:
        with self.transport.ledger.waiting(flight.layer, flight.direction):
            data = self.transport.wait(flight.pending)
        return self.codec.decode(data, flight.columns)

    def _buffer(self, layer: int, direction: str, use: str, nbytes: int) -> Tensor:
        key = (layer, direction, use)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < nbytes:
            buffer = torch.empty(nbytes, dtype=torch.uint8, device=self._device)
            self._buffers[key] = buffer
        return buffer[:nbytes]
