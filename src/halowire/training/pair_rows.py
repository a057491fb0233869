"""Rows of any nodes on any worker: owned ones from here, others fetched like a halo, their gradients returned."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.partitioning import PartLinks, Shard
from halowire.wire import Crossing, Extend, HaloExchange, Policy, Transport

PAIRS = 9_000
"""The layer that the ledger books rows of pairs under, out of the way of the model's own."""


class PairRows:
    """The rows of ``nodes`` (rows of the whole graph, any shape) behind this worker's own, in one table.

    All workers make one together: each tells the owners which of their rows it needs, once for all uses of them. Then
    ``table(h)`` is ``[n + m, k]``: the ``n`` owned rows of ``h``, then ``m`` fetched ones in float32. Backward, the
    gradients of the fetched rows return to their owners and are added there, as those of a halo are.
    """

    def __init__(
        self, nodes: Tensor, links: PartLinks, shard: Shard, transport: Transport, device: torch.device
    ) -> None:
        self._links, self._shard, self._transport, self._device = links, shard, transport, device
        self._num_nodes = links.owner.numel()
        keys = torch.unique(self._keys(nodes.reshape(-1)))
        owner = torch.div(keys, self._num_nodes, rounding_mode="floor")
        self._wanted = keys[owner != shard.rank]
        if transport.size > 1:
            self._exchange = self._agree(owner[owner != shard.rank])

    def table(self, rows: Tensor) -> Tensor:
        """``rows`` ``[n, k]``, then those of the other workers."""
        if self._transport.size == 1:
            return rows
        out: Tensor = Extend.apply(rows.contiguous(), Crossing(self._exchange, PAIRS, None))  # type: ignore[no-untyped-call]
        return out

    def places(self, nodes: Tensor) -> Tensor:
        """The rows of ``nodes`` in the table, int64 in the shape of ``nodes``."""
        own = self._links.owner[nodes] == self._shard.rank
        away = torch.searchsorted(self._wanted, self._keys(nodes)) + self._shard.num_owned
        return torch.where(own, self._links.place[nodes].long(), away).to(self._device)

    def _keys(self, nodes: Tensor) -> Tensor:
        """Ascending by owner, then by row of the graph."""
        return self._links.owner[nodes].long() * self._num_nodes + nodes

    def _agree(self, owner: Tensor) -> HaloExchange:
        """Tell the owners, and hear from the others, which rows are needed."""
        shard, transport = self._shard, self._transport
        wanted = torch.bincount(owner, minlength=transport.size).tolist()
        asked = transport.swap_counts(wanted, "counts of the pairs' rows")
        nodes = self._wanted % self._num_nodes
        sent = transport.swap(self._links.place[nodes], wanted, asked, "exchange of the pairs' rows").long()
        # The exchange of a shard whose halo is what was asked for; every owned row may be sent, whatever its place.
        pseudo = replace(
            shard,
            num_boundary=shard.num_owned,
            halo_ids=nodes,
            halo=Csr(torch.zeros(shard.num_owned + 1, dtype=torch.int64), torch.empty(0).int(), None, nodes.numel()),
            symmetric_degree=torch.zeros(shard.num_owned + nodes.numel()),
            send_index=sent,
            send_counts=tuple(asked),
            recv_counts=tuple(wanted),
        )
        return HaloExchange(pseudo, transport, self._device, Policy())
