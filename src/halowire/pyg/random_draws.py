"""Random numbers for nodes and edges in a model's forward, the same on any number of workers and in plain PyG."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from halowire.kernels import row_keys, uniform_bits
from halowire.pyg.any_nodes import Directory
from halowire.pyg.edges import Edges, unmarked
from halowire.wire import sent_over

STREAM = 302
"""The stream of random numbers for these draws, apart from all other draws of the same seed."""


class Random(nn.Module):
    """Draws for nodes and edges that are functions of (seed, number of the draw, ids of the nodes) alone.

    So they are the same for one worker, many workers and plain PyG. Every method takes ``edge_index``, which knows the
    nodes of a part; ``passes`` counts the draws so far.

    Example:
        >>> self.random = halowire.Random(seed=0)  # in the model's __init__
        >>> noise = self.random.nodes(edge_index, x.size(0), x.size(1))  # in its forward: one row for each node
        >>> noise = self.random.normal(edge_index, x.size(0), x.size(1))  # the same of normal numbers
        >>> corrupted = self.random.shuffled(x, edge_index)  # the rows of all nodes in a random order, as in DGI
        >>> negative = self.random.negatives(edge_index, x.size(0))  # one random source for each edge's target

    Args:
        seed: seed of the draws; two of these modules in one model need different seeds.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed
        self.passes = 0

    def nodes(self, edge_index: Tensor, num_nodes: int, width: int = 1) -> Tensor:
        """Uniform numbers in ``[0, 1)`` for each node, float32 ``[n, width]``."""
        return self._uniform(self._keys(_ids(edge_index, num_nodes)), width)

    def normal(self, edge_index: Tensor, num_nodes: int, width: int = 1) -> Tensor:
        """Normal numbers for each node, float32 ``[n, width]``: ``sqrt(-2 log(1 - u)) cos(2 pi v)`` of uniform ones."""
        u, v = self.nodes(edge_index, num_nodes, 2 * width).chunk(2, 1)
        return (-2 * torch.log1p(-u)).sqrt() * torch.cos(2 * math.pi * v)

    def edges(self, edge_index: Tensor, width: int = 1) -> Tensor:
        """Uniform numbers in ``[0, 1)`` for each edge, float32 ``[E, width]``; copies of an edge get the same."""
        ends = _edge_ids(edge_index)
        keys = row_keys(self.seed, self.passes, 0, ends[0], STREAM)
        return self._uniform(self._keys(keys ^ ends[1]), width)

    def shuffled(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The rows of ``x`` ``[n, ...]`` in a random order of all nodes of the graph."""
        total, directory = _whole(edge_index, x.shape[0])
        order = self._keys(torch.arange(total)).argsort()
        if directory is None:
            return x[sent_over(order, x.device)]
        mine: Tensor = x[directory.marked(order[directory.rows], x.device)]
        return mine

    def negatives(self, edge_index: Tensor, num_nodes: int, count: int = 1) -> Tensor:
        """``count`` random sources for each edge's target, ``[2, count E]``: pairs that may be edges by chance.

        Parallel edges into a target get different sources, in the order of the edges.
        """
        ends = _edge_ids(edge_index)
        target: Tensor = unmarked(edge_index)[1]
        total, directory = _whole(edge_index, num_nodes)
        keys = row_keys(self.seed, self.passes, 0, ends[1], STREAM)
        keys = row_keys(self.seed, self.passes, 1, keys ^ ends[0], STREAM)
        bits = uniform_bits(self._keys(keys), count)
        drawn = (bits * total).div(2**32, rounding_mode="floor").reshape(-1)
        target = target.repeat_interleave(count)
        return torch.stack([drawn if directory is None else directory.marked(drawn, target.device), target])

    def _keys(self, ids: Tensor) -> Tensor:
        """A key for every id, of this draw alone."""
        keys = row_keys(self.seed, self.passes, 2, ids, STREAM)
        self.passes += 1
        return keys

    @staticmethod
    def _uniform(keys: Tensor, width: int) -> Tensor:
        # 24 bits, as many as float32 holds exactly, so that no number is rounded up to 1.
        return (uniform_bits(keys, width) >> 8).float() / 2**24

    def extra_repr(self) -> str:
        """The settings, as they are printed with the model."""
        return f"seed={self.seed}"


def _ids(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The ids of the nodes ``[n]``."""
    if isinstance(edge_index, Edges):
        return sent_over(Directory.of(edge_index.bridge).rows, edge_index.device)
    return torch.arange(num_nodes, device=edge_index.device)


def _whole(edge_index: Tensor, num_nodes: int) -> tuple[int, Directory | None]:
    """The number of nodes of the whole graph, and where they are if ``edge_index`` is that of a part."""
    if not isinstance(edge_index, Edges):
        return num_nodes, None
    directory = Directory.of(edge_index.bridge)
    return directory.owner.numel(), directory


def _edge_ids(edge_index: Tensor) -> Tensor:
    """The ids of both ends of every edge, ``[2, E]``."""
    if not isinstance(edge_index, Edges):
        return edge_index
    ends: Tensor = unmarked(edge_index)
    bridge = Directory.of(edge_index.bridge).bridge
    found = [bridge.end_ids(end, mark) for end, mark in zip(ends, edge_index.sources, strict=True)]
    return torch.stack(found)
