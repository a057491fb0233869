"""A graph of several node types is cut into parts: a relation is one edge type as one worker holds it.

One partition gives every node of every type an owner. A worker holds, of each node type, its own rows; of each edge
type, the edges into its rows, and a halo of exactly those source rows that these edges read and others own:

    relation ("author", "writes", "paper"):   owned authors | halo authors  ->  owned papers

So each relation has rows to send and to receive of its own (`HaloLists`), and every exchange carries the rows of one
relation only. The owned rows of a type have one order for all relations: those that some relation sends come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.partitioning.owned_edges import owned_edges

EdgeType = tuple[str, str, str]
"""Source type, name and target type of the edges, as in PyG."""


@dataclass(frozen=True, eq=False)
class Relation:
    """The edges of one type into one worker's rows, and the rows that it sends and receives; see `HaloLists`.

    Attributes:
        edges: the worker's edges as places in the whole list of this edge type, int64 ``[e]`` (`owned_edges`).
        edge_index: their ends, int64 ``[2, e]``; sources are owned rows, then halo rows; targets are owned rows.
    """

    rank: int
    ids: Tensor
    num_boundary: int
    halo_ids: Tensor
    symmetric_degree: Tensor
    send_index: Tensor
    send_counts: tuple[int, ...]
    recv_counts: tuple[int, ...]
    edges: Tensor
    edge_index: Tensor

    @property
    def num_owned(self) -> int:
        """The number of owned rows of the source type."""
        return self.ids.numel()

    @property
    def num_halo(self) -> int:
        """The number of halo rows."""
        return self.halo_ids.numel()


@dataclass(frozen=True, eq=False)
class TypedPart:
    """One worker's part of a graph of several node types.

    Attributes:
        rank: the part.
        num_parts: number of parts.
        num_nodes: whole-graph number of nodes, by type.
        rows: owned rows of every type as places in the whole graph's list of that type, int64.
        num_edges: whole-graph number of edges, by type.
        relations: the edges, by edge type.
    """

    rank: int
    num_parts: int
    num_nodes: dict[str, int]
    rows: dict[str, Tensor]
    num_edges: dict[EdgeType, int]
    relations: dict[EdgeType, Relation]


def cut_types(edges: Mapping[EdgeType, Tensor], owner: Mapping[str, Tensor], rank: int, num_parts: int) -> TypedPart:
    """The part of worker ``rank``.

    Args:
        edges: ``edge_index`` ``[2, E]`` of every edge type.
        owner: the owner of every node, by node type, int64 ``[N]`` each.
        rank: the part.
        num_parts: number of parts.
    """
    degree = _degrees(edges, owner)
    wanted = {kind: _wanted(ends, owner[kind[0]], owner[kind[2]], num_parts) for kind, ends in edges.items()}
    rows: dict[str, Tensor] = {}
    boundary: dict[str, int] = {}
    for name, whose in owner.items():
        is_sent = torch.zeros(whose.numel(), dtype=torch.bool)
        for kind, (_, nodes) in wanted.items():
            if kind[0] == name:
                is_sent[nodes] = True
        own = (whose == rank).nonzero()[:, 0]
        rows[name] = torch.cat([own[is_sent[own]], own[~is_sent[own]]])
        boundary[name] = int(is_sent[own].sum())
    relations = {}
    for kind, ends in edges.items():
        source, target = owner[kind[0]], owner[kind[2]]
        peer, node = wanted[kind]
        mine, theirs = node[source[node] == rank], node[peer == rank]
        halo = theirs[torch.argsort(source[theirs], stable=True)]
        held = torch.cat([rows[kind[0]], halo])
        at_source, at_target = _places(held, source.numel()), _places(rows[kind[2]], target.numel())
        edge = owned_edges(ends, target, rank, at_target)
        relations[kind] = Relation(
            rank=rank,
            ids=rows[kind[0]],
            num_boundary=boundary[kind[0]],
            halo_ids=halo,
            symmetric_degree=degree[kind[0]][held],
            send_index=at_source[mine],
            send_counts=_counts(peer[source[node] == rank], num_parts),
            recv_counts=_counts(source[halo], num_parts),
            edges=edge,
            edge_index=torch.stack([at_source[ends[0, edge]], at_target[ends[1, edge]]]),
        )
    num_nodes = {name: whose.numel() for name, whose in owner.items()}
    num_edges = {kind: ends.shape[1] for kind, ends in edges.items()}
    return TypedPart(rank, num_parts, num_nodes, rows, num_edges, relations)


def _wanted(ends: Tensor, source: Tensor, target: Tensor, num_parts: int) -> tuple[Tensor, Tensor]:
    """All pairs of a part and a source that the part reads but does not own, ascending by part, then by source."""
    reader = target[ends[1]]
    crosses = source[ends[0]] != reader
    count = max(1, source.numel())
    pairs = torch.unique(reader[crosses] * count + ends[0, crosses])
    return pairs // count, pairs % count


def _degrees(edges: Mapping[EdgeType, Tensor], owner: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The in-degree of every node over all edge types, and 1, as for one self loop."""
    degree = {name: torch.ones(whose.numel()) for name, whose in owner.items()}
    for kind, ends in edges.items():
        degree[kind[2]] += torch.bincount(ends[1], minlength=degree[kind[2]].numel())
    return degree


def _places(held: Tensor, size: int) -> Tensor:
    """For each of ``size`` nodes its place in the list ``held``; -1 where it is not there."""
    places = torch.full((size,), -1)
    places[held] = torch.arange(held.numel())
    return places


def _counts(parts: Tensor, num_parts: int) -> tuple[int, ...]:
    return tuple(torch.bincount(parts, minlength=num_parts).tolist())
