"""Pairs of nodes of two types: what link prediction on a ``HeteroData`` asks of a part.

``data["user", "rates", "movie"].edge_label_index`` holds pairs of the whole graph. A worker keeps those whose first
node it owns, and what has one row for each of them, such as ``edge_label``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import draw_negatives, pair_keys
from halowire.kernels import row_keys, uniform_bits
from halowire.pyg.node_index import refuse_no_index
from halowire.pyg.pairs import NodePlaces, Pairs, pair_names
from halowire.pyg.same_graph import require_same_count, require_same_list

if TYPE_CHECKING:
    from halowire.partitioning import EdgeType, TypedPart
    from halowire.pyg.model_pass import ModelPass
    from halowire.pyg.row_owner import Owner

STREAM = 305
"""The stream of random numbers for the targets of negative pairs of two types."""


class TypedPairs:
    """The pairs of a part with several node types."""

    store: Any
    shard: TypedPart
    passing: ModelPass
    owners: dict[str, Owner]
    pair_rows: dict[tuple[EdgeType, str], tuple[Tensor, int]]
    """By edge type and name, which of the whole graph's pairs are this worker's, and how many there are."""

    def node_places(self, name: str) -> NodePlaces:
        """Where all nodes of the type ``name`` are; all workers ask together, once."""
        kept: dict[str, NodePlaces] = self.__dict__.setdefault("_places_of", {})
        if name not in kept:
            part, passing = self.shard, self.passing
            where, cut = (passing.transport, passing.device), self.owners[name].cut
            kept[name] = NodePlaces.of(part.rows[name], part.num_nodes[name], *where, name, cut)
        return kept[name]

    def pairs(self, index: Tensor, kind: Any) -> Tensor:
        """This worker's share of pairs of nodes ``[2, P]`` of the whole graph: those whose first node it owns.

        All workers call this together, with the same pairs.

        Args:
            index: numbers of nodes in the whole graph, those of the source type first.
            kind: the edge type, or the types of the two ends, such as ``("user", "movie")``.
        """
        ends = self._end_types(kind)
        require_same_list(index, self.passing.transport)
        return self._share(index, ends, kind)

    def _share(self, index: Tensor, ends: tuple[str, str], kind: Any) -> Tensor:
        for end, name in zip(index, ends, strict=True):
            refuse_no_index(end, self.shard.num_nodes[name], f"the pairs of {kind!r}")
        return self._between(index[:, self._mine(index, ends[0])], ends)

    def cut_pairs(self) -> None:
        """Keep this worker's share of all pairs of the whole graph, and of their labels."""
        self.pair_rows = {}
        for kind in self.shard.relations:
            store = self.store[kind]
            found = pair_names(dict(store.items()))
            for pairs in dict.fromkeys(found.values()):
                index = store[pairs]
                store[pairs] = self._share(index, self._end_types(kind), kind)
                mine = self._mine(index, kind[0])
                self.pair_rows[kind, pairs] = mine.cpu().nonzero()[:, 0], index.shape[1]
                for name in (name for name, of in found.items() if of == pairs != name):
                    store[name] = store[name][mine.to(store[name].device)]

    def negative_sampling(self, count: int, kind: Any, seed: int = 0) -> Tensor:
        """This worker's share of ``count`` pairs of nodes without an edge of the type ``kind`` between them.

        Every call draws other ones. The draws are the same on any number of workers.

        Args:
            count: the pairs of all workers together.
            kind: the edge type; its edges in this part of the graph are those that no pair is.
            seed: the seed of the draws.
        """
        relation = self._relation(kind)
        require_same_count(count, self.passing.transport)
        source, target = relation[0], relation[2]
        part, drawn = self.shard, self.__dict__.setdefault("_drawn", 0)
        self.__dict__["_drawn"] = drawn + 1
        ids = torch.arange(count)
        targets = (uniform_bits(row_keys(seed, drawn, 0, ids, STREAM), 1)[:, 0] * part.num_nodes[target]) >> 32
        # All edges into a node are held by its owner, who can see that a pair is none of them.
        mine = self.node_places(target).owner[targets] == part.rank
        held, sources = part.relations[relation], part.num_nodes[source]
        # A node is never drawn for itself; nodes of two types are told apart by numbers that do not meet.
        apart = 0 if source == target else sources
        known = pair_keys(
            part.rows[target][held.edge_index[1]] + apart,
            torch.cat([held.ids, held.halo_ids])[held.edge_index[0]],
            sources,
        )
        anchors = torch.stack([targets[mine] + apart, ids[mine]])
        first = draw_negatives(anchors, 1, torch.unique(known), sources, seed, drawn)[:, 0]
        return self._between(torch.stack([first, targets[mine]]).to(self.passing.device), (source, target))

    def _between(self, index: Tensor, ends: tuple[str, str]) -> Tensor:
        return Pairs.between(index, [self.node_places(name) for name in ends])

    def _mine(self, index: Tensor, source: str) -> Tensor:
        return (self.node_places(source).owner[index[0].cpu()] == self.shard.rank).to(index.device)

    def _end_types(self, kind: Any) -> tuple[str, str]:
        ends = (kind[0], kind[-1]) if isinstance(kind, tuple) else ("", "")
        if any(name not in self.shard.num_nodes for name in ends):
            raise InputError(
                f"pairs are asked for {kind!r}, which is no edge type and names no two node types; the node types are "
                f"{', '.join(self.shard.num_nodes)}"
            )
        return ends

    def _relation(self, kind: Any) -> EdgeType:
        """The edge type that ``kind``, all of it or its ends, names."""
        given = kind if isinstance(kind, tuple) else (kind,)
        fitting = [found for found in self.shard.relations if given in (found, (found[0], found[2]), (found[1],))]
        if len(fitting) != 1:
            kinds = ", ".join(map(str, self.shard.relations))
            raise InputError(f"{kind!r} names {len(fitting)} edge types; give one of {kinds}")
        return fitting[0]
