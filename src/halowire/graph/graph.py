"""The whole graph that is trained on: destination-sorted CSR, node tensors and masks, immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError, size_text
from halowire.graph.tensors import Array, to_features, to_indices, to_labels, to_mask, to_tensor, to_values
from halowire.inputs import memory_bytes
from halowire.kernels import Csr

NODE_BYTES = 32
"""The least memory that a node takes: its id, where its edges begin, and both once more while they are checked."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph with N nodes, E directed edges, F features and C classes.

    The fields cannot be set again, but their tensors are shared with the caller wherever the types allow it, not
    copied: writing into an array from which a graph was made, or into a tensor of a graph, changes the graph and all
    graphs derived from it. Give a copy (``x.clone()``) to be independent.

    Example:
        >>> graph = halowire.Graph.from_edge_index(edge_index, num_nodes, x=x, y=y)
        >>> halowire.train(graph.with_split(train_mask, val_mask, test_mask), workers=2)

    Attributes:
        name: what the graph is called in reports.
        adj: ``[N, N]``; a row is a destination, its columns are the sources. Self loops and duplicates stay as given.
        x: features, float32 ``[N, F]``, dense or sparse, or None.
        y: classes, int64 ``[N]`` with -1 for unlabelled nodes; or float32 ``[N, C]`` of 0 and 1 (multi-label); or, for
            regression, any values, float32 ``[N, C]`` with NaN for nodes without a value; or None.
        train_mask: bool ``[N]`` or None; likewise ``val_mask`` and ``test_mask``.
        ids: int64 ``[N]``, the user's own id of every node.
        num_classes: C, 0 without labels; for regression the values per node.
        regression: whether ``y`` holds values instead of classes.
        edge_tensors: further tensors of the edges (features, types), by name, ``[E, ...]`` each, in the order of
            `edge_index`.
    """

    name: str
    adj: Csr
    x: Tensor | Csr | None
    y: Tensor | None
    train_mask: Tensor | None
    val_mask: Tensor | None
    test_mask: Tensor | None
    ids: Tensor
    num_classes: int
    regression: bool = False
    edge_tensors: Mapping[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def from_edge_index(
        edge_index: Array,
        num_nodes: int | None = None,
        x: Array | Csr | None = None,
        y: Array | None = None,
        *,
        train_mask: Array | None = None,
        val_mask: Array | None = None,
        test_mask: Array | None = None,
        edge_weight: Array | None = None,
        ids: Array | None = None,
        name: str = "graph",
        num_classes: int | None = None,
        regression: bool = False,
        edge_tensors: Mapping[str, Array] | None = None,
    ) -> Graph:
        """Build a graph from NumPy arrays or tensors.

        Args:
            edge_index: integers ``[2, E]``; row 0 is the source, row 1 the destination.
            num_nodes: N; left out, it is the number of rows of ``x`` or ``y``, else the largest id plus one.
            x: features ``[N, F]``, dense, a torch or SciPy sparse matrix, or a `Csr`.
            y: classes ``[N]`` or ``[N, 1]`` (-1 or NaN: unlabelled), or 0/1 ``[N, C]`` for multi-label.
            train_mask: boolean ``[N]``; likewise ``val_mask`` and ``test_mask``.
            edge_weight: ``[E]`` or ``[E, 1]``, or None where every edge weighs 1.
            ids: the nodes' own ids ``[N]``; 0..N-1 if left out.
            name: what the graph is called in reports.
            num_classes: C; left out, it follows from ``y``.
            regression: ``y`` holds values to learn, any numbers ``[N]`` or ``[N, C]``.
            edge_tensors: more tensors of the edges, ``[E, ...]`` each: ``{"edge_attr": ..., "edge_type": ...}``.
        """
        edges = _edges(edge_index)
        features = to_features(x)
        labels = to_values(y) if regression else to_labels(y)
        if num_nodes is None:
            num_nodes = _infer_num_nodes(edges, features, labels)
        if num_nodes <= 0:
            raise InputError("the graph has no nodes, expected at least one; check the input file or num_nodes")
        named = None if ids is None else to_indices(ids, "ids").long()
        _require_fit(num_nodes, {"x": features, "y": labels, "ids": named})
        weight = _edge_weight(edge_weight, edges.shape[1])
        _require_range(edges, num_nodes)
        if num_classes is None:
            num_classes = _infer_num_classes(labels)
        return Graph(
            name=name,
            adj=Csr.from_edges(edges[1], edges[0], num_nodes, num_nodes, weight),
            x=features,
            y=labels,
            train_mask=to_mask(train_mask, "train_mask"),
            val_mask=to_mask(val_mask, "val_mask"),
            test_mask=to_mask(test_mask, "test_mask"),
            ids=torch.arange(num_nodes) if named is None else named,
            num_classes=num_classes,
            regression=regression,
            edge_tensors=_edge_tensors(edge_tensors or {}, edges, num_nodes),
        )

    @property
    def num_nodes(self) -> int:
        """The number of nodes, N."""
        return self.adj.num_rows

    @property
    def num_edges(self) -> int:
        """The number of directed edges, E; an undirected edge counts twice."""
        return self.adj.nnz

    @property
    def num_features(self) -> int:
        """The number of columns of ``x``, F; 0 without features."""
        return 0 if self.x is None else self.x.shape[1]

    @property
    def multi_label(self) -> bool:
        """Whether a node can have several labels at once."""
        return self.y is not None and self.y.dim() == 2 and not self.regression

    def as_regression(self) -> Graph:
        """The same graph with its classes or labels as values to learn; unlabelled nodes have no value (NaN)."""
        if self.regression or self.y is None:
            return self
        values = to_values(self.y)
        assert values is not None
        values = values if self.y.dim() == 2 else torch.where(values < 0, torch.nan, values)
        return replace(self, y=values, num_classes=values.shape[1], regression=True)

    def edge_index(self) -> Tensor:
        """Edges as int64 ``[2, E]`` (source, destination), sorted by destination, then source."""
        return torch.stack([self.adj.indices.long(), self.adj.row_index().long()])

    def undirected(self) -> Graph:
        """The graph with every edge in both directions and once, ``A' = max(A, A^T)``.

        Of parallel edges the heaviest is kept. An undirected graph without duplicates stays as it is.
        """
        if self.edge_tensors:
            names = ", ".join(self.edge_tensors)
            raise InputError(
                f"the edges have {names}, which an added reverse edge would lack; add reverse edges before"
            )
        row, col = self.adj.row_index(), self.adj.indices.to(torch.int64)
        weight = None if self.adj.weight is None else self.adj.weight.repeat(2)
        row, col = torch.cat([row, col]), torch.cat([col, row])
        return replace(self, adj=Csr.from_edges(row, col, self.num_nodes, self.num_nodes, weight).distinct())

    def subgraph(self, mask: Tensor) -> Graph:
        """The nodes where ``mask`` (bool ``[N]``) is true and the edges among them; ids and classes stay."""
        if mask.dtype != torch.bool or mask.shape != (self.num_nodes,):
            raise InputError(
                f"the mask of a subgraph has shape {list(mask.shape)} and type {mask.dtype}, "
                f"expected torch.bool [{self.num_nodes}]"
            )
        keep = mask.nonzero().squeeze(1)
        number = torch.full((self.num_nodes,), -1, dtype=torch.int64)
        number[keep] = torch.arange(keep.numel())
        inside = self.with_edges(mask[self.adj.row_index()] & mask[self.adj.indices.long()])
        row, col = number[inside.adj.row_index()], number[inside.adj.indices.long()]
        adj = Csr.from_edges(row, col, keep.numel(), keep.numel(), inside.adj.weight)
        return replace(inside, adj=adj, **self.of_nodes(keep))

    def of_nodes(self, rows: Tensor) -> dict[str, Any]:
        """The tensors of the nodes ``rows``, by the names of the fields: ``x``, ``y``, the masks and ``ids``."""
        values = {name: getattr(self, name) for name in ("y", "train_mask", "val_mask", "test_mask", "ids")}
        held = {name: None if value is None else value[rows] for name, value in values.items()}
        x = self.x.select_rows(rows) if isinstance(self.x, Csr) else None if self.x is None else self.x[rows]
        return held | {"x": x}

    def with_edges(self, kept: Tensor) -> Graph:
        """The graph with only the edges ``kept``, bool ``[E]`` in the order of `edge_index`."""
        weight = None if self.adj.weight is None else self.adj.weight[kept]
        rows, cols = self.adj.row_index()[kept], self.adj.indices[kept]
        adj = Csr.from_edges(rows, cols, self.num_nodes, self.num_nodes, weight)
        return replace(self, adj=adj, edge_tensors={name: value[kept] for name, value in self.edge_tensors.items()})

    def with_split(self, train: Array | None, val: Array | None, test: Array | None) -> Graph:
        """The same graph with other masks, bool ``[N]`` each."""
        return replace(
            self,
            train_mask=to_mask(train, "train_mask"),
            val_mask=to_mask(val, "val_mask"),
            test_mask=to_mask(test, "test_mask"),
        )

    def __repr__(self) -> str:
        kind = " values" if self.regression else " labels" if self.multi_label else " classes"
        return (
            f"Graph({self.name}: {self.num_nodes:,} nodes, {self.num_edges:,} edges, "
            f"{self.num_features:,}{' sparse' if isinstance(self.x, Csr) else ''} features, {self.num_classes}{kind})"
        )


def _edges(edge_index: Array) -> Tensor:
    edges = to_indices(edge_index, "edge_index")
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise InputError(
            f"edge_index has shape {list(edges.shape)}, expected [2, E] with sources in row 0 and destinations "
            "in row 1; transpose a list of pairs first"
        )
    return edges


def _infer_num_nodes(edges: Tensor, x: Tensor | Csr | None, y: Tensor | None) -> int:
    if x is not None:
        return x.shape[0]
    if y is not None:
        return y.shape[0]
    return int(edges.max()) + 1 if edges.numel() else 0


def _require_fit(num_nodes: int, given: Mapping[str, Tensor | Csr | None]) -> None:
    """Refuse a number of nodes that is not that of the tensors, or that no memory can hold, before any is taken."""
    for name, values in given.items():
        if values is not None and tuple(values.shape[:1]) != (num_nodes,):
            raise InputError(f"{name} has shape {list(values.shape)}, expected {num_nodes} rows: one per node")
    needed, most = NODE_BYTES * num_nodes, memory_bytes()
    if needed > most:
        raise InputError(
            f"the graph has {num_nodes} nodes, which take at least {size_text(needed)}, expected at most the "
            f"{size_text(most)} of memory that there are; check num_nodes and the largest node id"
        )


def _infer_num_classes(y: Tensor | None) -> int:
    if y is None:
        return 0
    if y.dim() == 2:
        return y.shape[1]
    return max(int(y.max()) + 1, 0) if y.numel() else 0


def _edge_weight(edge_weight: Array | None, num_edges: int) -> Tensor | None:
    if edge_weight is None:
        return None
    weight = to_tensor(edge_weight, "edge_weight").float()
    if weight.dim() == 2 and weight.shape[1] == 1:
        weight = weight.squeeze(1)
    if weight.shape != (num_edges,):
        raise InputError(
            f"edge_weight has shape {list(weight.shape)}, expected [{num_edges}]: one number per column of edge_index"
        )
    return weight


def _edge_tensors(given: Mapping[str, Array], edges: Tensor, num_nodes: int) -> dict[str, Tensor]:
    """The tensors in the order of the adjacency: by destination, then source; duplicates in the order given."""
    if not given:
        return {}
    order = torch.argsort(edges[1].long() * num_nodes + edges[0].long(), stable=True)
    found = {}
    for name, values in given.items():
        tensor = to_tensor(values, name)
        if tensor.dim() == 0 or tensor.shape[0] != edges.shape[1]:
            raise InputError(
                f"{name} has shape {list(tensor.shape)}, expected [{edges.shape[1]}, ...]: one row per edge"
            )
        found[name] = tensor[order]
    return found


def _require_range(edges: Tensor, num_nodes: int) -> None:
    if edges.numel() == 0:
        return
    low, high = int(edges.min()), int(edges.max())
    if low < 0 or high >= num_nodes:
        raise InputError(
            f"node ids in edge_index run from {low} to {high}, expected 0..{num_nodes - 1} for {num_nodes} nodes; "
            "check num_nodes and whether the ids start at 0"
        )
