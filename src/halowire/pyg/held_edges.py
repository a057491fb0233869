"""The edges of the graph or part that a model ran on, by which values of edges are told and put in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.pyg.edge_forms import FORMS, EdgeForm
from halowire.pyg.edges import unmarked

Kind = str | tuple[str, str, str]
"""A node type or an edge type of a graph that has several."""


@dataclass(frozen=True)
class HeldEdges:
    """The edges of one type: ``edges`` ``[2, E']``, with the numbers that their ends and themselves have as a whole.

    ``sources`` and ``targets`` are the whole graph's numbers of the nodes at both ends, ``edge_rows`` ``[E']`` those of
    the edges, of which the whole graph has ``num_edges``; ``num_nodes`` are the whole graph's nodes at the targets'
    end. ``kind`` is the edge type, and None in a graph of one type.
    """

    edges: Tensor
    sources: Tensor
    targets: Tensor
    edge_rows: Tensor
    num_edges: int
    num_nodes: int
    kind: Any = None

    @staticmethod
    def of_graph(graph: Any, rows: Tensor, nodes: int, num_edges: int) -> HeldEdges:
        """The edges of a graph of one type, or of a part of it, whose nodes have the numbers ``rows``."""
        edges = unmarked(graph.edge_index)
        shard = getattr(graph, "shard", None)
        sources = rows if shard is None else torch.cat([rows, shard.halo_ids])
        edge_rows = torch.arange(edges.shape[1]) if shard is None else graph.edge_rows
        return HeldEdges(edges, sources, rows, edge_rows, num_edges, nodes)

    @staticmethod
    def of_types(graph: Any) -> list[HeldEdges]:
        """The edges of every type of a graph of several node types, or of a part of it."""
        part = getattr(graph, "shard", None)
        if part is not None:
            return [
                HeldEdges(
                    relation.edge_index, torch.cat([relation.ids, relation.halo_ids]), part.rows[kind[2]],
                    relation.edges, part.num_edges[kind], part.num_nodes[kind[2]], kind,
                )
                for kind, relation in part.relations.items()
            ]  # fmt: skip
        found = []
        for kind in graph.edge_types:
            edges = unmarked(graph[kind].edge_index)
            sources, targets = (torch.arange(graph[name].num_nodes) for name in (kind[0], kind[2]))
            count = edges.shape[1]
            found.append(HeldEdges(edges, sources, targets, torch.arange(count), count, targets.numel(), kind))
        return found

    def form_of(self, extent: int, depth: int) -> EdgeForm | None:
        """The list number ``depth`` if it has ``extent`` entries; else None.

        A loop joins a node to itself, so edges between two types have no list but their own.
        """
        alike = self.kind is None or self.kind[0] == self.kind[2]
        form = FORMS[depth]
        return form if (alike or not depth) and form.count(self.edges, self.targets.numel()) == extent else None

    def keys(self, form: EdgeForm) -> Tensor:
        """The key of every entry of the list ``form``; see `EdgeForm.keys`."""
        return form.keys(self.edges, self.edge_rows, self.targets, self.num_edges)

    def numbered(self, edges: Tensor) -> Tensor:
        """A list of edges ``[2, m]`` as rows ``[m, 2]`` of the whole graph's node numbers."""
        return torch.stack([self.sources[edges[0]], self.targets[edges[1]]], 1)
