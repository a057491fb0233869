"""Link prediction: which edges are held out, which pairs are learnt, validated and tested, and negative pairs.

Negatives are nodes to which a source has no edge; their random numbers are counter-based, so that every worker draws
the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph.graph import Graph
from halowire.kernels import row_keys, uniform_bits

SPLITS = ("train", "val", "test")
STREAM = 401
TRIES = 16
"""Draws after which a source counts as crowded: from then on the next free node after the last draw is taken."""


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """Pairs (source, target) of nodes by their rows in the graph.

    Attributes:
        message: bool ``[E]``, the edges over which a model aggregates: all but the held-out ones.
        train: int64 ``[2, P]``, every message edge once, without self loops.
        ranked: for train (a sample), val and test the pairs ``[2, Q]`` that are ranked.
        negatives: for each of ``ranked`` the nodes ``[Q, M]`` among which the target is ranked.
        seed, val_share, test_share: what :func:`split_links` was given.
    """

    message: Tensor
    train: Tensor
    ranked: dict[str, Tensor]
    negatives: dict[str, Tensor]
    seed: int
    val_share: float
    test_share: float

    @property
    def num_negatives(self) -> int:
        """Number of nodes among which the target of a ranked pair is ranked, M."""
        return self.negatives["val"].shape[1]


def split_links(
    edge_index: Tensor, num_nodes: int, val_share: float, test_share: float, num_negatives: int, seed: int
) -> LinkSplit:
    """Hold out shares of the edges, at random, whatever their order in ``edge_index`` ``[2, E]``.

    All edges between two nodes, in both directions, are held out together, so that no aggregation uses an edge that is
    to be predicted. Two opposite edges are two pairs. Self loops always stay and are never learnt. The negatives of
    a ranked pair are not linked with its source in the whole graph.
    """
    source, target = edge_index[0].long(), edge_index[1].long()
    proper = (source != target).nonzero()[:, 0]
    low, high = torch.minimum(source, target)[proper], torch.maximum(source, target)[proper]
    between, group = torch.unique(pair_keys(low, high, num_nodes), return_inverse=True)
    counts = [round(share * between.numel()) for share in (val_share, test_share)]
    if min(counts) < 1 or sum(counts) >= between.numel():
        raise InputError(
            f"the graph has {between.numel()} pairs of linked nodes; {val_share:g} and {test_share:g} of them leave "
            "none to train, validate or test on; change --task.val-share and --task.test-share"
        )
    generator = torch.Generator().manual_seed(seed)
    part = torch.zeros(between.numel(), dtype=torch.int8)
    order = torch.randperm(between.numel(), generator=generator)
    part[order[: counts[0]]] = 1
    part[order[counts[0] : sum(counts)]] = 2
    own = part[group]
    message = torch.ones(source.numel(), dtype=torch.bool)
    message[proper] = own == 0
    known = torch.unique(pair_keys(source[proper], target[proper], num_nodes))
    pairs = [_pairs(source[proper[own == place]], target[proper[own == place]], num_nodes) for place in range(3)]
    sample = torch.randperm(pairs[0].shape[1], generator=generator)[: pairs[1].shape[1]].sort().values
    ranked = dict(zip(SPLITS, (pairs[0][:, sample], pairs[1], pairs[2]), strict=True))
    negatives = {
        name: draw_negatives(chosen, num_negatives, known, num_nodes, seed, stream=1 + place)
        for place, (name, chosen) in enumerate(ranked.items())
    }
    return LinkSplit(message, pairs[0], ranked, negatives, seed, val_share, test_share)


def message_graph(graph: Graph, message: Tensor) -> Graph:
    """``graph`` without labels and with only the edges ``message``, bool ``[E]`` in the order of ``edge_index``."""
    none = {"y": None, "train_mask": None, "val_mask": None, "test_mask": None}
    return replace(graph.with_edges(message), num_classes=0, regression=False, **none)  # type: ignore[arg-type]


def _pairs(source: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Every pair once, ascending, ``[2, P]``."""
    keys = torch.unique(pair_keys(source, target, num_nodes))
    return torch.stack([torch.div(keys, num_nodes, rounding_mode="floor"), keys % num_nodes])


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
