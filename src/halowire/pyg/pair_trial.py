"""Pairs of nodes in a rehearsal: a model that scores the pairs that it is called with is tried on random pairs.

Every list of pairs has a number of its own, larger than any number of nodes and edges, in each part and as a whole. So
the rows of an output tell which list they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from halowire.pyg.pairs import Pairs, are_pairs, pair_names

PARTS = 2
STEP = 10
"""How many pairs more each list has than the one before, in each part."""
NAME = "edge_label_index"
"""How the names of pairs end, by which the random graph is cut."""


def draw_pairs(owner: Tensor, targets: int, above: int, place: int, generator: torch.Generator) -> Tensor:
    """Random pairs ``[2, P]``, more than ``above`` in each part; each belongs to the owner of its first node.

    Args:
        owner: the part of every node that may come first.
        targets: the number of nodes that may come second.
        above: the largest number of nodes and edges together.
        place: the number of this list of pairs.
        generator: draws the nodes.
    """
    pieces = []
    for part in range(PARTS):
        nodes = (owner == part).nonzero()[:, 0]
        count = above + 3 + 3 * part + STEP * place
        pieces.append(nodes[torch.randint(nodes.numel(), (count,), generator=generator)])
    first = torch.cat(pieces)
    first = first[torch.randperm(first.numel(), generator=generator)]
    return torch.stack([first, torch.randint(targets, first.shape, generator=generator)])


def label_of(tensors: Any, value: Any) -> str | None:
    """The name of ``value`` among ``tensors``, if it has one row for each of their pairs."""
    found = (name for name, pairs in pair_names(tensors).items() if name != pairs and tensors[name] is value)
    return next(found, None)


def pairs_of(label: str, pairs: Iterable[str]) -> str | None:
    """Which of ``pairs``, by their names, the tensor ``label`` has a row for each of; see `pair_names`."""
    stems = {name: name.removesuffix("_index") for name in pairs}
    return next((name for name, stem in stems.items() if label == stem or label.startswith(f"{stem}_")), None)


def name_among(tensors: Any, value: Any, new: str) -> str:
    """The name of the pairs ``value`` among ``tensors``; a name made of ``new`` if they have none."""
    return next((name for name, found in tensors.items() if found is value), f"{new}_{NAME}")


def held_pairs(stores: dict[Any, Any], numbered: Callable[[Any, str], Any]) -> list[tuple[Tensor, int]]:
    """For all pairs in ``stores``, the tensors of a graph by edge type, which of the whole graph's pairs they are.

    ``numbered(kind, name)`` tells of a part's pairs; it gives None for a whole graph, which has all of them.
    """
    found = []
    for kind, tensors in stores.items():
        for name, value in tensors.items():
            if are_pairs(name, value):
                count = value.shape[1]
                found.append(numbered(kind, name) or (torch.arange(count), count))
    return found


def shape_of(kind: Any, value: Tensor) -> tuple[Any, ...]:
    """What of a sample's shape may decide which code runs: not the number of rows, but whether there are any."""
    if isinstance(value, Pairs) or kind == "label":
        return ("pairs", value.dim())
    return tuple(value.shape[1:]), value.shape[0] == 0


def pairs_called(samples: dict[str, tuple[Any, Tensor]], graph: Any) -> list[tuple[Tensor, int]]:
    """For each list of pairs that a model is called with, which of the whole graph's ``graph`` has."""
    numbers = getattr(graph, "pair_rows", {})
    if any(isinstance(kind, tuple) for kind, _ in samples.values()):
        stores = {kind: dict(graph[kind].items()) for kind in graph.edge_types}
        return held_pairs(stores, lambda kind, name: numbers.get((kind, name)))
    named = {name: getattr(graph, name) for name, (kind, _) in samples.items() if kind == "pair"}
    return held_pairs({None: named}, lambda _, name: numbers.get(name))
