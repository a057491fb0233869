"""Input features of the halo: exchanged once, before training, dense or sparse."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.partitioning import Shard
from halowire.wire.halo_exchange import HaloExchange
from halowire.wire.transport import Transport


def exchange_features(x: Tensor | Csr, shard: Shard, exchange: HaloExchange) -> Tensor | Csr:
    """The halo's rows of ``x``, ``[h, F]``, in the format of ``x``."""
    if isinstance(x, Csr):
        return _exchange_sparse(x, shard, exchange.transport)
    return exchange.fetch(x, layer=0)


def _exchange_sparse(x: Csr, shard: Shard, transport: Transport) -> Csr:
    """Row lengths first, so that the receiver knows the sizes; then the columns; then the values, if there are any."""
    send = x.select_rows(shard.send_index)
    lengths = send.indptr.diff()
    halo_lengths = exchange_flat(lengths, shard.send_counts, shard.recv_counts, transport)
    indptr = torch.zeros(halo_lengths.numel() + 1, dtype=torch.int64)
    torch.cumsum(halo_lengths, 0, out=indptr[1:])
    out_sizes = _sums(lengths, shard.send_counts)
    in_sizes = _sums(halo_lengths, shard.recv_counts)
    indices = exchange_flat(send.indices, out_sizes, in_sizes, transport)
    weight = None if send.weight is None else exchange_flat(send.weight, out_sizes, in_sizes, transport)
    return Csr(indptr, indices, weight, x.num_cols)


def exchange_flat(
    values: Tensor, send_counts: Sequence[int], recv_counts: Sequence[int], transport: Transport
) -> Tensor:
    """Send ``send_counts[p]`` of the ``values``, which are grouped by peer, to every peer ``p``; what they sent."""
    width = values.element_size()
    received = torch.empty(sum(recv_counts) * width, dtype=torch.uint8)
    data = values.contiguous().view(torch.uint8)
    transport.ledger.sent(data.numel())
    pending = transport.all_to_all(
        data, [c * width for c in send_counts], received, [c * width for c in recv_counts], "exchange of the features"
    )
    transport.wait(pending)
    transport.settle(data)
    return received.view(values.dtype)


def _sums(lengths: Tensor, counts: tuple[int, ...]) -> tuple[int, ...]:
    """The sum of the ``lengths`` of every peer."""
    return tuple(int(part.sum()) for part in torch.split(lengths, list(counts)))
