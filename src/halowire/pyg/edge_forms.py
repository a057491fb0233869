"""The lists of edges that layers give values for: a part's own edges, with or without self loops, or with added ones.

Attention layers of PyG remove the self loops of a graph and append one for each node, in the nodes' order. So the rows
of what a model gives for edges follow one of four lists, and each row has a key by which the rows of all workers come
into the order that they have on the whole graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class EdgeForm:
    """A list made of edges: ``loops`` says whether their self loops stay, ``added`` whether one per node follows."""

    loops: bool = True
    added: bool = False

    def count(self, edge_index: Tensor, num_nodes: int) -> int:
        """The entries of the list that is made of ``edge_index`` ``[2, E]``."""
        return int(self._kept(edge_index).sum()) + self.added * num_nodes

    def keys(self, edge_index: Tensor, edge_rows: Tensor, rows: Tensor, num_whole_edges: int) -> Tensor:
        """The key of every entry, int64 ``[m]``; ascending keys are the order of the list of the whole graph.

        ``key = e`` for edge ``e`` of the whole graph's ``E``, and ``E + v`` for the loop that is added to node ``v``.

        Args:
            edge_index: the edges of the part, ``[2, E']``.
            edge_rows: their numbers in the whole graph, ``[E']``.
            rows: the numbers of the part's nodes in the whole graph, ``[n]``.
            num_whole_edges: the edges of the whole graph.
        """
        kept = edge_rows[self._kept(edge_index).cpu()]
        return torch.cat([kept, num_whole_edges + rows]) if self.added else kept

    def _kept(self, edge_index: Tensor) -> Tensor:
        if self.loops:
            return torch.ones(edge_index.shape[1], dtype=torch.bool, device=edge_index.device)
        return edge_index[0] != edge_index[1]


ALL_EDGES = EdgeForm()
"""The edges of the part as they are."""
FORMS = (ALL_EDGES, EdgeForm(loops=False), EdgeForm(loops=False, added=True), EdgeForm(added=True))
"""The plain list comes first: where a graph has no self loops, it equals the second."""
