"""A case of the list of PyG's layers: how its model is made, and what becomes of it on many workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tests.support.pyg_case import FEATURES, make_graph

PLAIN = ("x", "edge_index")
WEIGHT = (*PLAIN, "edge_weight")
ATTR = (*PLAIN, "edge_attr")
TYPE = (*PLAIN, "edge_type")
EQUAL, REFUSED, ELSEWHERE, ABSENT = "equal", "refused", "elsewhere", "absent"


@dataclass(frozen=True)
class Case:
    """A model of the list.

    ``outcome`` is `EQUAL` to plain PyG, `REFUSED` with ``words`` in the message, `ELSEWHERE` (another test, ``words``)
    or `ABSENT`: it is no layer of nodes or links, or does not run in plain PyG here, for the reason ``words``.
    ``sorted_only``: plain PyG itself needs edges sorted by target.
    """

    make: Callable[[], nn.Module] | None = None
    inputs: tuple[str, ...] = PLAIN
    outcome: str = EQUAL
    words: str = ""
    sorted_only: bool = False

    def build(self) -> nn.Module:
        """The model, with the same weights wherever it is made."""
        assert self.make is not None
        with torch.random.fork_rng():
            torch.manual_seed(5)
            return self.make()


def refused(make: Callable[[], nn.Module], words: str, inputs: tuple[str, ...] = PLAIN) -> Case:
    return Case(make, inputs, REFUSED, words)


def elsewhere(test: str) -> Case:
    return Case(outcome=ELSEWHERE, words=test)


def absent(why: str) -> Case:
    return Case(outcome=ABSENT, words=why)


def list_graph(sort: bool) -> dict[str, Tensor]:
    """The graph of `make_graph`, with types of nodes, labels and a mask; its edges sorted by target if ``sort``."""
    graph = make_graph()
    if sort:
        order = torch.argsort(graph["edge_index"][1], stable=True)
        graph = {name: value if name == "x" else value[..., order] if name == "edge_index" else value[order]
                 for name, value in graph.items()}  # fmt: skip
    numbers = torch.arange(len(graph["x"]))
    columns = graph["x"].argmax(1)
    return graph | {
        "node_type": numbers % 2,
        "y": (graph["x"][:, 0] > 0).long(),
        "train_mask": numbers % 3 > 0,
        "colour": columns % FEATURES,
    }
