"""Graphs of the same nodes, such as those of ``RandomLinkSplit``, share one partition and one order of rows.

So rows, masks and pairs of one of their parts fit those of another, and weights with a row for each node serve all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.partitioning import Shard
from halowire.schedules import renumber
from halowire.wire import Transport

if TYPE_CHECKING:
    from halowire.pyg.data_part import ShardData

FACTOR, SLACK = 1.5, 0.01
"""A partition serves another graph that it cuts at most so many times the share of edges, and a little more."""
_KEPT: WeakKeyDictionary[Transport, dict[Any, KeptCut]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class KeptCut:
    """The ``owner`` of every node, int64 ``[N]``, the ``rows`` of this worker in their order, and the share of edges
    between workers in the graph that was cut."""

    owner: Tensor
    rows: Tensor
    share: float = 1.0

    @staticmethod
    def last(key: Any, transport: Transport) -> KeptCut | None:
        """The cut that was kept under ``key``, the number of nodes and how they are cut; None where there is none."""
        return _KEPT.get(transport, {}).get(key)

    @staticmethod
    def of(part: Any, num_nodes: int) -> KeptCut:
        """The cut of ``part``; all workers ask together."""
        data: ShardData = part
        if not hasattr(data, "shard") or not isinstance(data.shard, Shard) or data.shard.num_nodes != num_nodes:
            raise InputError(
                f"like={part!r}, which is no part of a graph of {num_nodes} nodes of one type; give a part that "
                "halowire.shard made of a graph with the same nodes"
            )
        return KeptCut(data.node_places.owner.long(), data.rows)

    @staticmethod
    def made(owner: Tensor, rows: Tensor, edge_index: Tensor, transport: Transport) -> KeptCut:
        """The cut of a graph with these edges; rank 0 alone judges by them."""
        return KeptCut(owner, rows, cut_share(owner, edge_index) if transport.rank == 0 else 1.0)

    def keep(self, key: Any, transport: Transport) -> None:
        """Keep this cut under ``key`` as long as the connection lives."""
        if transport.size > 1:
            _KEPT.setdefault(transport, {})[key] = self

    def serves(self, edge_index: Tensor) -> bool:
        """Whether these edges are cut about as well as those that the partition was made for."""
        return cut_share(self.owner, edge_index) <= FACTOR * self.share + SLACK

    def ordered(self, shard: Shard) -> Shard:
        """``shard``, which has the same nodes, with its rows in the order that they have here."""
        place = torch.empty(shard.num_nodes, dtype=torch.int64)
        place[self.rows] = torch.arange(self.rows.numel())
        return renumber(shard, place[shard.rows], self.rows.numel())[0]


def cut_share(owner: Tensor, edge_index: Tensor) -> float:
    """The share of edges between nodes of two owners."""
    ends = owner[edge_index.cpu().long()]
    return float((ends[0] != ends[1]).float().mean()) if ends.numel() else 0.0
