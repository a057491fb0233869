"""Streaming owners: one pass over the nodes with a few numbers per part, for graphs that METIS cannot hold."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr, InputError
from halowire.partition.weight import node_weight

# Nodes of a block do not see each other's owners, so blocks are a small share of a part; at least this many for speed.
BLOCKS_PER_PART = 64
SMALLEST_BLOCK = 64
LARGEST_BLOCK = 65536


def stream_owners(adj: Csr, parts: int, slack: float = 0.05) -> Tensor:
    """Linear deterministic greedy placement in node order, block by block; int64 ``[N]``.

    A node goes to the part with the highest ``score_p = (neighbours already in p) * (1 - load_p / capacity)``, where
    ``load_p`` is the weight already in ``p`` and ``capacity = (1 + slack) * total / parts``; a node without placed
    neighbours goes where there is most room. Neighbours count in both directions.

    Args:
        adj: ``[N, N]``.
        parts: number of parts.
        slack: how far a part may exceed the mean weight.
    """
    if not slack >= 0:
        raise InputError(f"slack is {slack}, but must be 0 or more: it is the imbalance allowed, such as 0.05")
    weight = node_weight(adj)
    capacity = float(weight.sum()) * (1 + slack) / parts
    load = torch.zeros(parts, dtype=torch.float64)
    owner = torch.full((adj.num_rows,), parts, dtype=torch.int64)
    reverse = adj.transpose()
    sides = [adj] if reverse.indices is adj.indices else [adj, reverse]
    block = min(max(adj.num_rows // (parts * BLOCKS_PER_PART), SMALLEST_BLOCK), LARGEST_BLOCK)
    for start in range(0, adj.num_rows, block):
        nodes = slice(start, min(start + block, adj.num_rows))
        near = _neighbours(sides, owner, nodes, parts)
        owner[nodes] = _place(near, weight[nodes], load, capacity)
    return owner


def _neighbours(sides: list[Csr], owner: Tensor, nodes: slice, parts: int) -> Tensor:
    """How many neighbours every node of the block has in every part, float64 ``[b, parts]``."""
    size = nodes.stop - nodes.start
    near = torch.zeros(size * (parts + 1), dtype=torch.int64)
    for side in sides:
        indptr = side.indptr[nodes.start : nodes.stop + 1]
        found = owner[side.indices[int(indptr[0]) : int(indptr[-1])].long()]
        row = torch.repeat_interleave(torch.arange(size), indptr.diff())
        near += torch.bincount(row * (parts + 1) + found, minlength=near.numel())
    return near.view(size, parts + 1)[:, :parts].double()  # The last column counts neighbours without an owner yet.


def _place(near: Tensor, weight: Tensor, load: Tensor, capacity: float) -> Tensor:
    """Choose owners for a block and add their weight to ``load`` (in place); int64 ``[b]``."""
    room = (capacity - load).clamp(min=0)
    best, choice = (near * room).max(1)
    attached = (best > 0).nonzero().flatten()
    # By part, the surest nodes first: what does not fit any more is the part's weakest claim.
    order = attached[torch.argsort(best[attached], descending=True, stable=True)]
    order = order[torch.argsort(choice[order], stable=True)]
    wanted, running = choice[order], torch.cumsum(weight[order], 0)
    total = torch.zeros_like(load).index_add_(0, wanted, weight[order])
    fits = running - (torch.cumsum(total, 0) - total)[wanted] <= room[wanted]
    placed = order[fits]
    load.index_add_(0, choice[placed], weight[placed])
    loose = torch.ones(choice.numel(), dtype=torch.bool)
    loose[placed] = False
    rest = loose.nonzero().flatten()
    choice[rest] = _fill(weight[rest], load, capacity)
    return choice


def _fill(weight: Tensor, load: Tensor, capacity: float) -> Tensor:
    """Spread nodes over the parts in proportion to their room, in ranges; int64, adds to ``load`` in place."""
    room = (capacity - load).clamp(min=0)
    if float(room.sum()) == 0:
        room = torch.ones_like(load)
    share = torch.cumsum(room, 0) / room.sum()
    middle = (torch.cumsum(weight, 0) - weight / 2) / weight.sum().clamp(min=1e-300)
    choice = torch.searchsorted(share, middle).clamp(max=load.numel() - 1)
    load.index_add_(0, choice, weight)
    return choice
