"""Edges held out for link prediction: what messages pass along, which pairs are learnt, validated and tested."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph.graph import Graph
from halowire.graph.negatives import draw_negatives, pair_keys

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """Pairs (source, target) of nodes by their rows in the graph.

    Attributes:
        message: bool ``[E]``, the edges that messages pass along: all but the held-out ones.
        train: int64 ``[2, P]``, every message edge once, without self loops.
        ranked: for train (a sample), val and test the pairs ``[2, Q]`` that are ranked.
        negatives: for each of them the nodes ``[Q, M]`` that the target is ranked among.
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
        """How many nodes the target of a ranked pair is ranked among, M."""
        return self.negatives["val"].shape[1]


def split_links(
    edge_index: Tensor, num_nodes: int, val_share: float, test_share: float, num_negatives: int, seed: int
) -> LinkSplit:
    """Hold out shares of the edges, at random, whatever their order in ``edge_index`` ``[2, E]``.

    All edges between two nodes, in both directions, are held out together, so that no message passes along an edge that
    is to be predicted. Two opposite edges are two pairs. Self loops always stay and are never learnt. The negatives of
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
