"""Owners of a graph of several node types: one partition of all nodes together, levelled so that every type is shared.

A layer works type by type, so a part with half of all nodes but no authors is idle while authors are computed. METIS
balances all nodes together, and pymetis has no second constraint. So nodes of a type that one part has too many of
move to parts that have too few, those first whose move cuts the fewest edges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from halowire.graph import Graph
from halowire.partitioning.partition import Partition, partition
from halowire.partitioning.relation import EdgeType

SLACK = 1.05
"""A part has at most this many times its equal share of the nodes of a type, rounded up."""


def type_owners(
    edges: Mapping[EdgeType, Tensor], num_nodes: Mapping[str, int], parts: int, method: str, seed: int
) -> dict[str, Tensor]:
    """The owner of every node, int64 ``[N]`` by node type."""
    graph = Graph.from_edge_index(union_edges(edges, num_nodes), sum(num_nodes.values()))
    owner = levelled(partition(graph, parts, method, seed), graph, tuple(num_nodes.values())).owner
    return dict(zip(num_nodes, torch.split(owner, list(num_nodes.values())), strict=True))


def levelled(found: Partition, graph: Graph, sizes: Sequence[int]) -> Partition:
    """The same partition with every type shared; nodes are numbered type after type, ``sizes`` of each."""
    owner, edges = found.owner.clone(), graph.edge_index()
    for first, count in zip(accumulate(sizes, initial=0), sizes, strict=False):
        level(owner, slice(first, first + count), edges, found.num_parts)
    return replace(found, owner=owner)


def union_edges(edges: Mapping[EdgeType, Tensor], num_nodes: Mapping[str, int]) -> Tensor:
    """The edges of all types over all nodes, which are numbered type after type, int64 ``[2, E]``."""
    first = dict(zip(num_nodes, accumulate(num_nodes.values(), initial=0), strict=False))
    shifted = [ends.cpu().long() + torch.tensor([[first[kind[0]]], [first[kind[2]]]]) for kind, ends in edges.items()]
    return torch.cat(shifted, 1)


def level(owner: Tensor, nodes: slice, edges: Tensor, parts: int) -> None:
    """Move some of ``nodes`` to other parts, in place, until no part has more than its share of them."""
    count = nodes.stop - nodes.start
    most = math.ceil(count / parts * SLACK) if count >= parts else 1
    sizes = torch.bincount(owner[nodes], minlength=parts).tolist()
    for giver in range(parts):
        if sizes[giver] <= most:
            continue
        ties = _ties(owner, nodes, edges, parts)
        for taker in sorted(range(parts), key=lambda part: sizes[part]):
            moved = min(sizes[giver] - most, most - sizes[taker])
            if taker == giver or moved <= 0:
                continue
            mine = (owner[nodes] == giver).nonzero()[:, 0]
            gain = ties[mine, taker] - ties[mine, giver]
            owner[nodes][mine[torch.argsort(gain, descending=True, stable=True)[:moved]]] = taker
            sizes[giver] -= moved
            sizes[taker] += moved


def _ties(owner: Tensor, nodes: slice, edges: Tensor, parts: int) -> Tensor:
    """How many edges join each of ``nodes`` to each part, in both directions, int64 ``[n, parts]``."""
    count = nodes.stop - nodes.start
    ties = torch.zeros(count * parts, dtype=torch.int64)
    for near, far in ((edges[0], edges[1]), (edges[1], edges[0])):
        here = (near >= nodes.start) & (near < nodes.stop)
        ties += torch.bincount((near[here] - nodes.start) * parts + owner[far[here]], minlength=count * parts)
    return ties.view(count, parts)
