"""Levelling: nodes move out of a part that is too large, those first that are tied to it least.

Partitioners make parts alike in a weight of nodes, which knows nothing of halo rows. What a part costs in work and in
memory is only known when it is cut, so the rest is done here: the part with the largest load gives nodes to parts that
have room, until no part has more than 1.15 of the mean, or nothing helps any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.partitioning.part_load import EDGE_BYTES, PartLoad

LARGEST_PART = 1.15
"""No part should have more than this times the mean, in predicted work or memory."""
LEEWAY = 1.1
"""Where the graph forbids this bound, a part may have so many times the least that it allows: the rest costs rows."""
AIM = 0.99
"""The share of the bound that a part is brought to: moved nodes make halo rows elsewhere."""
ROUNDS, PATIENCE = 40, 6
"""How many times nodes move at most, and how many times without a smaller largest part."""


def levelled(graph: Graph, owner: Tensor, parts: int, widths: Sequence[int]) -> Tensor:
    """``owner`` int64 ``[N]`` with nodes moved until no part is above :func:`goal`; the best that was found."""
    load = PartLoad.of(graph, owner, parts, widths)
    best, least, failed = owner, load.largest(), 0
    for _ in range(ROUNDS):
        bound = goal(graph, load)
        if load.largest() <= bound or failed == PATIENCE:
            break
        owner = _shed(graph, owner, parts, load, AIM * bound)
        load = PartLoad.of(graph, owner, parts, widths)
        failed += 1
        if load.largest() < least:
            best, least, failed = owner, load.largest(), 0
    return best


def goal(graph: Graph, load: PartLoad) -> float:
    """How large a part may be over the mean of ``load``: 1.15; where the graph forbids it, a tenth above its least."""
    least = least_largest(graph, load)
    return LARGEST_PART if least <= LARGEST_PART else LEEWAY * least


def least_largest(graph: Graph, load: PartLoad) -> float:
    """What the largest part over the mean is at least, if the mean is that of ``load``.

    Some part owns the node with the most in-edges. It needs the rows of all ``d`` sources of this node, as its own or
    in its halo, so that its memory is at least ``node_bytes + d min(halo_bytes, node_bytes) + 16 d``, and its work at
    least ``1 / all nodes + d / all edges``.
    """
    edges = int(graph.adj.indptr.diff().max())
    sources = int(graph.adj.distinct().indptr.diff().max())
    memory = load.node_bytes + sources * min(load.halo_bytes, load.node_bytes) + EDGE_BYTES * edges
    work = 1 / graph.num_nodes + edges / max(graph.num_edges, 1)
    return len(load.nodes) * max(memory / sum(load.memory()), work / sum(load.work()))


def _shed(graph: Graph, owner: Tensor, parts: int, load: PartLoad, bound: float) -> Tensor:
    """``owner`` after nodes left the part with the largest load for parts below ``bound`` in work and in memory."""
    work, memory = torch.tensor(load.work()).double(), torch.tensor(load.memory()).double()
    work, memory = work / work.mean(), memory / memory.mean()
    heavy = memory if memory.max() >= work.max() else work
    part = int(heavy.argmax())
    room = bound - torch.maximum(work, memory)
    inside = (owner == part).nonzero().flatten()
    degree = graph.adj.indptr.diff()[inside].double()
    mean = sum(load.memory()) / parts
    of_memory = (load.node_bytes + EDGE_BYTES * degree) / mean
    of_work = (1 / graph.num_nodes + degree / max(graph.num_edges, 1)) * parts / sum(load.work())
    gain, target = _best_targets(graph.adj, owner, inside, part, room > 0)
    # A hub would take its halo along.
    gain[degree * load.halo_bytes > mean / 2] = -torch.inf
    order = torch.argsort(gain, descending=True, stable=True)[: int((gain > -torch.inf).sum())]
    cost = (of_memory if heavy is memory else of_work)[order].cumsum(0)
    order = order[: int(torch.searchsorted(cost, heavy[part] - bound)) + 1]
    size, moved = torch.maximum(of_memory, of_work), owner.clone()
    for other in (room > 0).nonzero().flatten().tolist():
        there = order[target[order] == other]
        moved[inside[there[size[there].cumsum(0) <= room[other]]]] = other
    return moved


def _best_targets(adj: Csr, owner: Tensor, inside: Tensor, part: int, free: Tensor) -> tuple[Tensor, Tensor]:
    """For the nodes ``inside`` of ``part``: how many edges fewer are cut if each moves, and the ``free`` part for that.

    Edges count in both directions. Without a free part nothing is gained: minus infinity.
    """
    parts, count = free.numel(), inside.numel()
    read = adj.select_rows(inside)
    place = torch.full((owner.numel(),), -1, dtype=torch.int32)
    place[inside] = torch.arange(count, dtype=torch.int32)
    by = place[adj.indices]
    readers = (by >= 0).nonzero().flatten()
    reader = torch.searchsorted(adj.indptr, readers, right=True) - 1
    ties = torch.cat([read.row_index().long() * parts + owner[read.indices], by[readers] * parts + owner[reader]])
    edges = torch.bincount(ties, minlength=count * parts).view(count, parts).double()
    most, target = edges.masked_fill(~free, -torch.inf).max(1)
    return most - edges[:, part], target
