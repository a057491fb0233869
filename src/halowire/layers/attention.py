"""The edges that attention runs over, spread over the workers: own and halo edges of a row together."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from halowire.errors import InputError
from halowire.kernels import Csr, row_range
from halowire.layers.propagation import Propagation, head_of
from halowire.partitioning import Shard
from halowire.wire import HaloExchange


@dataclass(frozen=True, eq=False)
class Attention(Propagation):
    """``forth`` ``[n, n + h]`` has a row's edges from owned and from halo nodes, cut into head and tail.

    One softmax runs over both, so unlike a sum they cannot be taken one after the other. ``inner_t`` ``[n, n]`` and
    ``halo_t`` ``[h, n]`` are the two parts of its transpose. Every node has one self loop; there are no weights.
    """

    forth_head: Csr
    forth_tail: Csr

    @property
    def num_rows_held(self) -> int:
        """Owned and halo rows, ``n + h``: attention reads both from one matrix."""
        return self.inner.num_rows + self.exchange.num_halo

    @staticmethod
    def over(shard: Shard, exchange: HaloExchange, device: torch.device) -> Attention:
        """The edges of ``shard``, with the self loops of PyG's ``GATConv``."""
        if shard.inner.weight is not None or shard.halo.weight is not None:
            raise InputError(
                f"graph {shard.graph!r} has edge weights, which attention does not use; leave them out, or use "
                "--model.name gcn or sage"
            )
        (inner, halo), n = shard.looped(), shard.num_owned
        rows = torch.cat([inner.row_index(), halo.row_index()])
        cols = torch.cat([inner.indices.long(), halo.indices.long() + n])
        forth = Csr.from_edges(rows, cols, n, n + shard.num_halo)
        back, forth = forth.transpose().to(device), forth.to(device)
        inner, halo, head = inner.to(device), halo.to(device), head_of(halo, exchange)
        return Attention(
            inner,
            halo,
            row_range(back, 0, n),
            row_range(back, n, n + shard.num_halo),
            row_range(inner, 0, head),
            row_range(inner, head, n),
            row_range(halo, 0, head),
            head,
            exchange,
            (),
            row_range(forth, 0, head),
            row_range(forth, head, n),
        )
