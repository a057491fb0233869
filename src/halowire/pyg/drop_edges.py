"""Edges are dropped at random (DropEdge), in a way that does not depend on how the graph is cut."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.kernels import row_keys, uniform_bits
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.stacked import Stacked

STREAM = 301
"""The stream of random numbers for these draws, apart from all other draws of the same seed."""


class DropEdges(nn.Module):
    """Drops every edge with probability ``p`` while training; layers then see the degrees of the remaining edges.

    Whether an edge stays is a function of (seed, training pass, ids of its two nodes), so it is the same for one
    worker, many workers and plain PyG. Copies of an edge stay or go together, and with ``undirected`` both directions.

    Example:
        >>> self.drop_edges = halowire.DropEdges(0.2)  # in the model's __init__
        >>> edge_index = self.drop_edges(edge_index)  # in its forward

    Args:
        p: probability that an edge is dropped, ``0 <= p < 1``.
        seed: seed of the draws; two of these modules in one model need different seeds.
        undirected: drop both directions of an edge together.
    """

    def __init__(self, p: float = 0.5, seed: int = 0, undirected: bool = False) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise InputError(f"the share of dropped edges is {p}; it must lie in 0 <= p < 1")
        self.p = p
        self.seed = seed
        self.undirected = undirected
        self.passes = 0

    def forward(self, edge_index: Tensor, *edge_tensors: Tensor | None) -> Tensor | tuple[Tensor | None, ...]:
        """The remaining edges of ``edge_index`` ``[2, E]`` and, if given, their rows of edge tensors ``[E, ...]``."""
        if self.training and self.p > 0:
            count = edge_index.shape[1]
            for tensor in edge_tensors:
                if tensor is not None and tensor.shape[:1] != (count,):
                    raise InputError(
                        f"DropEdges got a tensor of shape {list(tensor.shape)} beside {count} edges; give it tensors "
                        "with one row for each edge of edge_index"
                    )
            # Places instead of a mask: the host waits for them once, not at every use.
            kept = self._kept(edge_index).nonzero()[:, 0]
            self.passes += 1
            edge_index = edge_index[:, kept]
            edge_tensors = tuple(None if tensor is None else tensor[kept] for tensor in edge_tensors)
        return (edge_index, *edge_tensors) if edge_tensors else edge_index

    def _kept(self, edge_index: Tensor) -> Tensor:
        """Which edges stay, bool ``[E]``."""
        ends: Tensor = unmarked(edge_index)
        if isinstance(edge_index, Edges):
            bridge = edge_index.bridge
            if isinstance(bridge, Stacked):
                raise InputError("DropEdges got edges of several types, joined into one list; drop edges before that")
            pairs = zip(ends, edge_index.sources, strict=True)
            ends = torch.stack([bridge.end_ids(end, is_source) for end, is_source in pairs])
        first, second = ends[0], ends[1]
        if self.undirected:
            first, second = torch.minimum(first, second), torch.maximum(first, second)
        keys = row_keys(self.seed, self.passes, 0, first, STREAM)
        keys = row_keys(self.seed, self.passes, 1, keys ^ second, STREAM)
        return uniform_bits(keys, 1)[:, 0] >= math.ceil(self.p * 2**32)

    def extra_repr(self) -> str:
        """The settings, as they are printed with the model."""
        return f"p={self.p}, seed={self.seed}, undirected={self.undirected}"
