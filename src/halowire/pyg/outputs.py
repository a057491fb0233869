"""What a model gives: rows of nodes, or values of edges or pairs; each row has a key, by which parts are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.edge_forms import FORMS, EdgeForm
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.held_edges import HeldEdges
from halowire.pyg.leaves import keyed_leaves
from halowire.pyg.row_numbers import RowNumbers, TypedRows, count_text, numbers_in_part


@dataclass(frozen=True)
class Belongs:
    """What the rows of an output belong to: nodes, the entries of the list ``form`` of edges, or ``pairs`` of nodes.

    In a graph of several types ``kind`` is the type of the nodes or edges.
    """

    kind: Any = None
    form: EdgeForm | None = None
    pairs: bool = False


NODES = Belongs()
PAIRS = Belongs(pairs=True)


@dataclass
class Output:
    """A tensor ``values`` ``[m, ...]``; ``keys`` ``[m]`` are below ``bound``, and ascend in the whole graph's order."""

    values: Tensor
    keys: Tensor
    bound: int
    belongs: Belongs = NODES

    def weights(self, generator: torch.Generator) -> Tensor:
        """Random weights of the values, which depend on the keys alone."""
        return torch.randn(self.bound, *self.values.shape[1:], generator=generator)[self.keys]


@dataclass(frozen=True)
class Held:
    """The graph or part that a model ran on: which nodes, edges and pairs of the whole graph it has.

    ``rows`` and ``nodes`` are the numbers of its nodes and of all nodes. ``edges`` are those of every type, and
    ``pairs``, for each list of pairs, which of them it has, and how many there are.
    """

    rows: RowNumbers
    nodes: int
    edges: Sequence[HeldEdges]
    pairs: Sequence[tuple[Tensor, int]] = ()

    @staticmethod
    def of(graph: Any, rows: RowNumbers, nodes: int, num_edges: int, pairs: Sequence[tuple[Tensor, int]] = ()) -> Held:
        """What is known of ``graph``: a part, or a whole graph whose nodes have the numbers ``rows``."""
        if isinstance(rows, TypedRows):
            return Held(rows, nodes, HeldEdges.of_types(graph), pairs)
        return Held(rows, nodes, [HeldEdges.of_graph(graph, rows, nodes, num_edges)], pairs)

    def outputs(self, out: Any) -> list[Output]:
        """All tensors of an output; each must belong to the nodes or edges, of one type, or to the pairs."""
        found = [self._output(leaf, key) for key, leaf in keyed_leaves(out) if leaf is not None]
        if not found:
            raise InputError("the model's forward gives no tensor; a distributed model gives one row per node or edge")
        return found

    def of_nodes(self, values: Tensor, key: Any = None) -> Output | None:
        """``values`` as rows of nodes, of the type ``key`` if it is one; None where there are not as many nodes."""
        if not isinstance(self.rows, TypedRows):
            found = numbers_in_part(self.rows, values.shape[0])
            return None if found is None else Output(values, found, self.nodes)
        name = self.rows.name_of(values.shape[0], key)
        if name is None:
            return None
        return Output(values, self.rows.rows[name], self.rows.counts[name], Belongs(name))

    def of_edges(self, values: Tensor, key: Any = None, count: int | None = None) -> Output | None:
        """``values`` as rows of edges, of the type ``key`` if it is one; None where no list of edges has as many."""
        extent = values.shape[0] if count is None else count
        named = [held for held in self.edges if held.kind is not None and key in (held.kind, "__".join(held.kind))]
        for depth in range(len(FORMS)):  # the edges of every type as they are come before lists that are made of them
            for held in named or self.edges:
                form = held.form_of(extent, depth)
                if form is not None:
                    rows = values if count is None else held.numbered(values)
                    return Output(rows, held.keys(form), held.num_edges + held.num_nodes, Belongs(held.kind, form))
        return None

    def _output(self, value: Any, key: Any) -> Output:
        if not isinstance(value, Tensor):
            raise InputError(
                f"the model's forward gives {type(value).__name__}, which cannot be compared; give a tensor, or "
                "tuples, lists and dictionaries of tensors and None"
            )
        found = None
        if value.dim() and not isinstance(value, Edges):
            found = self._of_pairs(value) or self.of_nodes(value, key) or self.of_edges(value, key)
        if found is None and value.dim() == 2 and value.shape[0] == 2 and value.dtype == torch.int64:
            found = self._edge_list(value, key)
        if found is None:
            raise InputError(
                f"the model's output has shape {list(value.shape)} on {count_text(self.rows)}; a distributed model "
                "gives one row per node, or one per edge of edge_index, whose self loops may be removed or added, or "
                "one per pair that it is called with: pool and reduce outside of it, over all workers (data.mean)"
            )
        return found

    def _of_pairs(self, values: Tensor) -> Output | None:
        """``values`` as rows of pairs, whose number is unlike all others in a rehearsal."""
        for numbers, count in self.pairs:
            if numbers.numel() == values.shape[0]:
                return Output(values, numbers, count, PAIRS)
        return None

    def _edge_list(self, value: Tensor, key: Any) -> Output | None:
        """A list of edges ``[2, m]`` as rows ``[m, 2]`` of the whole graph's node numbers."""
        if getattr(value, "sources", (True, False)) != (True, False):
            return None
        return self.of_edges(unmarked(value), key, value.shape[1])


def assembled(pieces: Sequence[Output]) -> Tensor:
    """The rows of all parts in the order of the whole graph."""
    order = torch.cat([piece.keys for piece in pieces]).argsort()
    return torch.cat([piece.values for piece in pieces])[order]
