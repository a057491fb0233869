"""What link prediction asks of a part: its pairs of nodes, and pairs without an edge, drawn anew for every step."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halowire.graph import draw_negatives, pair_keys
from halowire.kernels import row_keys, uniform_bits
from halowire.pyg.edges import unmarked
from halowire.pyg.node_index import refuse_no_index
from halowire.pyg.pairs import NodePlaces, Pairs, pair_names
from halowire.pyg.same_graph import require_same_count, require_same_list
from halowire.wire import refuse_outside

if TYPE_CHECKING:
    from halowire.partitioning import Shard
    from halowire.pyg.model_pass import ModelPass
    from halowire.pyg.row_owner import Owner

STREAM = 303
"""The stream of random numbers for the nodes of negative pairs."""


class PairHabits:
    """The pairs of a part."""

    tensors: dict[str, Any]
    shard: Shard
    passing: ModelPass
    owner: Owner
    pair_rows: Mapping[str, tuple[Tensor, int]] = MappingProxyType({})
    """By the name of pairs, which of those of the whole graph are this worker's, and how many there are."""

    @property
    def node_places(self) -> NodePlaces:
        """Where all nodes are; all workers ask together, once."""
        # A cached_property of Python 3.11 would lock out workers that are threads of this process.
        if "_node_places" not in self.__dict__:
            shard, passing = self.shard, self.passing
            cut = self.owner.cut
            found = NodePlaces.of(shard.rows, shard.num_nodes, passing.transport, passing.device, cut=cut)
            self.__dict__["_node_places"] = found
        places: NodePlaces = self.__dict__["_node_places"]
        return places

    def pairs(self, index: Tensor) -> Tensor:
        """This worker's share of pairs of nodes ``[2, P]`` of the whole graph: those whose first node it owns.

        All workers call this together, with the same pairs.
        """
        require_same_list(index, self.passing.transport)
        return self._share(index)

    def cut_pairs(self) -> None:
        """Keep this worker's share of all pairs of the whole graph, and of their labels."""
        found = pair_names(self.tensors)
        mine = {name: self._mine(self.tensors[name]) for name in dict.fromkeys(found.values())}
        self.pair_rows = {name: (rows.cpu().nonzero()[:, 0], rows.numel()) for name, rows in mine.items()}
        for name, pairs in found.items():
            value = self.tensors[name]
            self.tensors[name] = self._share(value) if name == pairs else value[mine[pairs].to(value.device)]

    def edge_pairs(self) -> Tensor:
        """This worker's edges as pairs of nodes of the whole graph."""
        kept: Tensor | None = self.__dict__.get("_edge_pairs")
        if kept is None:
            edges = unmarked(self.tensors["edge_index"])
            kept = self._of(self._numbers(edges.cpu()).to(edges.device))
            self.__dict__["_edge_pairs"] = kept
        return kept

    def negative_sampling(self, count: int, seed: int = 0) -> Tensor:
        """This worker's share of ``count`` pairs of nodes of the whole graph without an edge between them.

        Every call draws other ones. The draws are the same on any number of workers.

        Args:
            count: the pairs of all workers together, such as ``data.num_whole_edges``.
            seed: the seed of the draws.
        """
        require_same_count(count, self.passing.transport)
        drawn = self.__dict__.setdefault("_drawn", 0)
        self.__dict__["_drawn"] = drawn + 1
        whole = self.shard.num_nodes
        ids = torch.arange(count)
        targets = (uniform_bits(row_keys(seed, drawn, 0, ids, STREAM), 1)[:, 0] * whole) >> 32
        # All edges into a node are held by its owner, who can see that a pair is none of them.
        mine = self.node_places.owner[targets] == self.shard.rank
        anchors = torch.stack([targets[mine], ids[mine]])
        ends = self._numbers(unmarked(self.tensors["edge_index"]).cpu())
        known = torch.unique(pair_keys(ends[1], ends[0], whole))
        sources = draw_negatives(anchors, 1, known, whole, seed, drawn)[:, 0]
        return self._of(torch.stack([sources, anchors[0]]).to(self.passing.device))

    def _share(self, index: Tensor) -> Tensor:
        refuse_no_index(index.reshape(-1), self.shard.num_nodes, "the pairs")
        return self._of(index[:, self._mine(index)])

    def _of(self, index: Tensor) -> Tensor:
        return Pairs.between(index, (self.node_places, self.node_places))

    def _mine(self, index: Tensor) -> Tensor:
        return (self.node_places.owner[index[0].cpu()] == self.shard.rank).to(index.device)

    def _numbers(self, rows: Tensor) -> Tensor:
        """The whole graph's numbers of nodes that this part counts as ``rows``."""
        if "_held" not in self.__dict__:
            shard, counts = self.shard, (self.shard.send_counts, self.shard.recv_counts)
            sent = shard.rows[shard.send_index]
            where = "numbers of the halo's nodes"
            halo = self.passing.transport.swap(sent, *counts, where)
            refuse_outside(halo, counts[1], shard.num_nodes, "the number of a node", self.passing.transport, where)
            self.__dict__["_held"] = torch.cat([shard.rows, halo])
        held: Tensor = self.__dict__["_held"]
        return held[rows]
