"""Negative pairs: nodes that a source has no edge to, drawn by counters, so that every worker draws the same."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import row_keys, uniform_bits

STREAM = 401
TRIES = 16
"""Draws after which a source counts as crowded: from then on the next free node after the last draw is taken."""


def pair_keys(source: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """A number for every pair of rows, ``source N + target``, int64; different pairs have different numbers."""
    return source * num_nodes + target


def draw_negatives(
    pairs: Tensor, count: int, known: Tensor, num_nodes: int, seed: int, epoch: int = 0, stream: int = 0
) -> Tensor:
    """``count`` nodes for every pair ``(u, v)`` of ``pairs`` ``[2, P]``, int64 ``[P, count]``, uniform over the nodes.

    A node ``w`` is drawn from (seed, epoch, stream, u, v, number of the draw) alone, and drawn again while ``w = u`` or
    ``(u, w)`` is among the ascending ``known`` keys. The result depends on no other pair, and so not on how the
    graph is cut.
    """
    source, target = pairs[0], pairs[1]
    found = _draw(source, target, count, num_nodes, (seed, epoch, stream), 0)
    taken = _taken(source[:, None], found, known, num_nodes)
    for attempt in range(1, TRIES):
        rows = taken.any(1).nonzero()[:, 0]
        if not rows.numel():
            return found
        again = _draw(source[rows], target[rows], count, num_nodes, (seed, epoch, stream), attempt)
        found[rows] = torch.where(taken[rows], again, found[rows])
        taken[rows] = _taken(source[rows, None], found[rows], known, num_nodes)
    return _next_free(source, found, known, num_nodes)


def _draw(
    source: Tensor, target: Tensor, count: int, num_nodes: int, where: tuple[int, int, int], attempt: int
) -> Tensor:
    seed, epoch, stream = where
    keys = row_keys(seed, epoch, attempt, source, STREAM + stream)
    keys = row_keys(seed, epoch, attempt, keys ^ target, STREAM + stream)
    return (uniform_bits(keys, count) * num_nodes) >> 32


def _taken(source: Tensor, nodes: Tensor, known: Tensor, num_nodes: int) -> Tensor:
    keys = pair_keys(source, nodes, num_nodes)
    if not known.numel():
        return nodes == source
    place = torch.searchsorted(known, keys).clamp_(max=known.numel() - 1)
    return (known[place] == keys) | (nodes == source)


def _next_free(source: Tensor, nodes: Tensor, known: Tensor, num_nodes: int) -> Tensor:
    for _ in range(num_nodes):
        taken = _taken(source[:, None], nodes, known, num_nodes)
        if not bool(taken.any()):
            return nodes
        nodes = torch.where(taken, (nodes + 1) % num_nodes, nodes)
    node = int(source[taken.any(1)][0])
    raise InputError(f"node {node} has edges to all other nodes, so no pair with it can be a negative; remove some")
