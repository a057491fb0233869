"""Owners without METIS: dealt at random, ranges of the node order, or one streaming pass for graphs of any size."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.partitioning.node_cost import node_weight

# All nodes of a block are placed in one step: a block must be a small share of a part, but large, for few steps.
BLOCKS_PER_PART = 64
SMALLEST_BLOCK = 64
LARGEST_BLOCK = 65536
# Nodes of one block see each other's owners from the second round on.
ROUNDS = 3


def random_owners(adj: Csr, parts: int, seed: int) -> Tensor:
    """Deal a seeded permutation of the nodes round-robin to the parts; int64 ``[N]``, counts differ by at most one.

    Edges are not looked at: this is the baseline that every other method must beat.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(adj.num_rows, generator=generator)
    owner = torch.empty(adj.num_rows, dtype=torch.int64)
    owner[order] = torch.arange(adj.num_rows) % parts
    return owner


def range_owners(adj: Csr, parts: int, seed: int = 0) -> Tensor:
    """Split ``0..N-1`` into ``parts`` non-empty ranges of near-equal weight; int64 ``[N]``, ascending.

    This takes no time, and the cut is small where neighbours have nearby ids (crawls, sorted data). Nothing is drawn at
    random, so that the ``seed``, which all partitioners are given, has no effect.
    """
    total = torch.cumsum(node_weight(adj), 0)
    target = total[-1] * torch.arange(1, parts, dtype=torch.float64) / parts
    cuts = torch.searchsorted(total, target, right=True)
    # A hub can swallow several targets: every cut must leave a node for each part before and after it.
    index = torch.arange(parts - 1)
    cuts = torch.cummax(cuts - index, 0).values + index if parts > 1 else cuts
    cuts = cuts.clamp(min=index + 1, max=adj.num_rows - parts + 1 + index)
    return torch.bucketize(torch.arange(adj.num_rows), cuts, right=True)


def stream_owners(adj: Csr, parts: int, seed: int = 0, slack: float = 0.05) -> Tensor:
    """Linear deterministic greedy placement in node order, block by block, with two numbers per part; int64 ``[N]``.

    A node goes to the part with the highest ``score_p = (neighbours already in p) * (1 - load_p / capacity)``, where
    ``load_p`` is the larger of the part's share of all nodes and of all edges, and ``capacity = (1 + slack) / parts``;
    a node without placed neighbours goes where there is room. Neighbours count in both directions.

    Args:
        adj: ``[N, N]``.
        parts: number of parts.
        seed: without effect, because nothing is drawn at random.
        slack: how far a part may exceed the mean, in nodes and in edges, before it attracts no more neighbours; a
            target, not a bound, as nodes that fit nowhere are spread over all parts.
    """
    if not slack >= 0:
        raise InputError(f"slack is {slack}, but must be 0 or more: it is the imbalance allowed, such as 0.05")
    degree = adj.indptr.diff().double()
    weight = torch.stack([torch.ones_like(degree) / adj.num_rows, degree / max(adj.nnz, 1)], 1)
    capacity = (1 + slack) / parts
    load = torch.zeros(parts, 2, dtype=torch.float64)
    owner = torch.full((adj.num_rows,), parts, dtype=torch.int64)
    reverse = adj.transpose()
    sides = [adj] if reverse.indices is adj.indices else [adj, reverse]
    block = min(max(adj.num_rows // (parts * BLOCKS_PER_PART), SMALLEST_BLOCK), LARGEST_BLOCK)
    for start in range(0, adj.num_rows, block):
        nodes = slice(start, min(start + block, adj.num_rows))
        for _ in range(ROUNDS):
            near = _neighbours(sides, owner, nodes, parts)
            owner[nodes] = _place(near, weight[nodes], load, capacity)
        load += _load(owner[nodes], weight[nodes], parts)
    return owner


def _load(owner: Tensor, weight: Tensor, parts: int) -> Tensor:
    """Weight by owner, float64 ``[parts, 2]``."""
    return torch.zeros(parts, 2, dtype=torch.float64).index_add_(0, owner, weight)


def _neighbours(sides: list[Csr], owner: Tensor, nodes: slice, parts: int) -> Tensor:
    """How many neighbours every node of the block has in every part, float64 ``[b, parts]``."""
    size = nodes.stop - nodes.start
    near = torch.zeros(size * (parts + 1), dtype=torch.int64)
    for side in sides:
        indptr = side.indptr[nodes.start : nodes.stop + 1]
        found = owner[side.indices[int(indptr[0]) : int(indptr[-1])].long()]
        row = torch.repeat_interleave(torch.arange(size), indptr.diff())
        near += torch.bincount(row * (parts + 1) + found, minlength=near.numel())
    # The last column counts neighbours that have no owner yet.
    return near.view(size, parts + 1)[:, :parts].double()


def _place(near: Tensor, weight: Tensor, load: Tensor, capacity: float) -> Tensor:
    """Owners for a block of nodes of ``weight`` ``[b, 2]`` on top of ``load`` ``[parts, 2]``; int64 ``[b]``."""
    room = (capacity - load.amax(1)).clamp(min=0)
    best, choice = (near * room).max(1)
    attached = (best > 0).nonzero().flatten()
    # Nodes with the highest scores come first in every part, so that nodes that do not fit have the lowest scores.
    order = attached[torch.argsort(best[attached], descending=True, stable=True)]
    order = order[torch.argsort(choice[order], stable=True)]
    wanted, running = choice[order], torch.cumsum(weight[order], 0)
    total = torch.zeros_like(load).index_add_(0, wanted, weight[order])
    already = torch.cumsum(total, 0) - total
    fits = (running - already[wanted] <= capacity - load[wanted]).all(1)
    loose = torch.ones(choice.numel(), dtype=torch.bool)
    loose[order[fits]] = False
    load = load + _load(choice[~loose], weight[~loose], load.size(0))
    choice[loose] = _spread(weight[loose], (capacity - load.amax(1)).clamp(min=0))
    return choice


def _spread(weight: Tensor, room: Tensor) -> Tensor:
    """Deal nodes to the parts in proportion to their room, as ranges of the block; int64 ``[b]``."""
    if float(room.sum()) == 0:
        room = torch.ones_like(room)
    share = torch.cumsum(room, 0) / room.sum()
    size = weight.sum(1)
    middle = (torch.cumsum(size, 0) - size / 2) / size.sum()
    return torch.searchsorted(share, middle).clamp(max=room.numel() - 1)
