"""What a part costs its worker: its nodes, edges and halo rows, and the work and the memory predicted from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.partitioning.owned_rows import group_by_owner, halo_of

DEFAULT_WIDTHS = (256, 256)
"""Widths that the default model exchanges: 3 layers of 256 hidden columns; the first layer's input is sent once."""
KEPT_MATRICES = 3
"""Matrices of a layer's width with a row for every owned node: its input, its aggregates and a gradient."""
EDGE_BYTES = 16
"""Bytes of an edge: its column and its weight, in the matrix and in its transpose."""


@dataclass(frozen=True)
class PartLoad:
    """The sizes of every part, and what they cost.

    Attributes:
        nodes, edges: number of owned nodes, and of edges into owned nodes.
        halo_rows: rows of other parts that the part needs.
        node_bytes: memory that an owned node takes: its features and its rows in all layers.
        halo_bytes: memory that a halo row takes.
    """

    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    halo_rows: tuple[int, ...]
    node_bytes: float
    halo_bytes: float

    @staticmethod
    def of(graph: Graph, owner: Tensor, num_parts: int, widths: Sequence[int]) -> PartLoad:
        """The load of the parts ``owner`` ``[N]`` under a model that exchanges rows of ``widths`` columns."""
        adj, owned, degree = graph.adj, group_by_owner(owner, num_parts), graph.adj.indptr.diff()
        return PartLoad(
            nodes=tuple(rows.numel() for rows in owned),
            edges=tuple(int(degree[rows].sum()) for rows in owned),
            halo_rows=tuple(halo_of(adj, owner, rows, part).numel() for part, rows in enumerate(owned)),
            node_bytes=feature_bytes(graph) + 4 * KEPT_MATRICES * sum(widths),
            halo_bytes=4 * sum(widths),
        )

    def work(self) -> list[float]:
        """An estimate of every worker's time: ``nodes / all nodes + edges / all edges``."""
        nodes, edges = max(sum(self.nodes), 1), max(sum(self.edges), 1)
        return [a / nodes + b / edges for a, b in zip(self.nodes, self.edges, strict=True)]

    def memory(self) -> list[float]:
        """An estimate of every worker's bytes: ``nodes * node_bytes + halo rows * halo_bytes + 16 * edges``."""
        sizes = zip(self.nodes, self.halo_rows, self.edges, strict=True)
        return [n * self.node_bytes + h * self.halo_bytes + e * EDGE_BYTES for n, h, e in sizes]

    def largest(self) -> float:
        """The largest part over the mean part, in predicted work or in predicted memory, whichever is larger."""
        return max(imbalance(self.work()), imbalance(self.memory()))


def feature_bytes(graph: Graph) -> float:
    """Bytes of a node's features, in the mean."""
    if isinstance(graph.x, Csr):
        return graph.x.nbytes / max(graph.num_nodes, 1)
    return 4.0 * graph.num_features


def imbalance(counts: Sequence[float]) -> float:
    """The largest count over the mean count; 1 where all counts are 0."""
    total = sum(counts)
    return max(counts) * len(counts) / total if total else 1.0
