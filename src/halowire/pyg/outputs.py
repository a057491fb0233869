"""What a model gives: rows of nodes, or values of edges; each row has a key, by which parts are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.edge_forms import EdgeForm, form_of
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.leaves import leaves
from halowire.pyg.row_numbers import RowNumbers, count_text, numbers_in_part, whole_count


@dataclass
class Output:
    """A tensor ``values`` ``[m, ...]``; ``keys`` ``[m]`` are below ``bound``, and ascend in the whole graph's order.

    ``form`` is the list of edges that the rows belong to; None: they belong to nodes.
    """

    values: Tensor
    keys: Tensor
    bound: int
    form: EdgeForm | None = None

    def weights(self, generator: torch.Generator) -> Tensor:
        """Random weights of the values, which depend on the keys alone."""
        return torch.randn(self.bound, *self.values.shape[1:], generator=generator)[self.keys]


@dataclass(frozen=True)
class Held:
    """The graph or part that a model ran on: the numbers of its nodes and edges in the whole graph.

    ``rows`` and ``nodes`` are the numbers of its nodes and of all nodes. A graph of one type also has its ``edges``
    ``[2, E]``, with ``ends``, the same edges with the whole graph's numbers of nodes, and ``edge_rows``, their numbers
    among the ``num_edges`` of the whole graph.
    """

    rows: RowNumbers
    nodes: int
    edges: Tensor | None = None
    numbers: Tensor | None = None
    edge_rows: Tensor | None = None
    num_edges: int = 0

    @staticmethod
    def of(graph: Any, rows: RowNumbers, nodes: int, num_edges: int) -> Held:
        """What is known of ``graph``: a part, or a whole graph whose nodes have the numbers ``rows``."""
        if not isinstance(rows, Tensor):
            return Held(rows, nodes)
        edges = unmarked(graph.edge_index)
        shard = getattr(graph, "shard", None)
        numbers = rows if shard is None else torch.cat([rows, shard.halo_ids])
        edge_rows = torch.arange(edges.shape[1]) if shard is None else graph.edge_rows
        return Held(rows, nodes, edges, numbers, edge_rows, num_edges)

    def outputs(self, out: Any) -> list[Output]:
        """All tensors of an output; each must belong to the nodes, to those of one type, or to the edges."""
        found = [self._output(leaf) for leaf in leaves(out) if leaf is not None]
        if not found:
            raise InputError("the model's forward gives no tensor; a distributed model gives one row per node or edge")
        return found

    def of_nodes(self, values: Tensor) -> Output | None:
        """``values`` as rows of nodes; None where there are not as many nodes."""
        keys = numbers_in_part(self.rows, values.shape[0])
        return None if keys is None else Output(values, keys, whole_count(self.rows, values.shape[0], self.nodes))

    def of_edges(self, values: Tensor) -> Output | None:
        """``values`` as rows of edges; None where no list of edges has as many."""
        if self.edges is None or self.edge_rows is None or not isinstance(self.rows, Tensor):
            return None
        form = form_of(values.shape[0], self.edges, self.rows.numel())
        if form is None:
            return None
        keys = form.keys(self.edges, self.edge_rows, self.rows, self.num_edges)
        return Output(values, keys, self.num_edges + self.nodes, form)

    def _output(self, value: Any) -> Output:
        if not isinstance(value, Tensor):
            raise InputError(
                f"the model's forward gives {type(value).__name__}, which cannot be compared; give a tensor, or "
                "tuples, lists and dictionaries of tensors and None"
            )
        found = None
        if value.dim() and not isinstance(value, Edges):
            found = self.of_nodes(value) or self.of_edges(value)
        if found is None and value.dim() == 2 and value.shape[0] == 2 and value.dtype == torch.int64:
            found = self._edge_list(value)
        if found is None:
            raise InputError(
                f"the model's output has shape {list(value.shape)} on {count_text(self.rows)}; a distributed model "
                "gives one row per node, or one per edge of edge_index, whose self loops may be removed or added: pool "
                "and reduce outside of it, over all workers (data.mean)"
            )
        return found

    def _edge_list(self, value: Tensor) -> Output | None:
        """A list of edges ``[2, m]`` as rows ``[m, 2]`` of the whole graph's node numbers."""
        assert self.numbers is not None or self.edges is None
        if self.numbers is None or getattr(value, "sources", (True, False)) != (True, False):
            return None
        return self.of_edges(self.numbers[unmarked(value)].t())


def assembled(pieces: Sequence[Output]) -> Tensor:
    """The rows of all parts in the order of the whole graph."""
    order = torch.cat([piece.keys for piece in pieces]).argsort()
    return torch.cat([piece.values for piece in pieces])[order]
