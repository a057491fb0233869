"""What one worker holds: owned nodes, halo nodes, the edges into owned nodes, and the rows it sends to each peer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from halowire.graph import inverse, inverse_sqrt, scaled_by, symmetric_degree, with_self_loops
from halowire.kernels import Csr


@dataclass(frozen=True, eq=False)
class Shard:
    """One part of a graph; ``n`` owned rows ordered ``[boundary | interior]``, then ``h`` halo rows.

    Attributes:
        graph: name of the graph.
        rank: the part.
        num_parts: number of parts.
        num_nodes: nodes of the whole graph.
        num_classes: classes of the whole graph.
        multi_label: whether ``y`` holds several labels per node.
        regression: whether ``y`` holds values, float32 ``[n, C]``, instead of classes.
        ids: original ids of owned rows, int64 ``[n]``.
        rows: row of every owned node in the user's graph, int64 ``[n]``; ascending within boundary and interior.
        num_boundary: how many owned rows some peer needs; they come first.
        halo_ids: original ids of halo rows, int64 ``[h]``, by owner, then by graph row.
        inner: edges from owned to owned rows as given (not normalised), ``[n, n]``.
        halo: edges from halo to owned rows, ``[n, h]``.
        degree: whole-graph sum of in-edge weights of owned rows, float32 ``[n]``.
        symmetric_degree: the degree with one self loop per node, owned rows then halo rows, float32 ``[n + h]``.
        send_index: owned row of every row sent, int64, grouped by peer, in that peer's halo order.
        send_counts: rows sent to every peer.
        recv_counts: halo rows by owner.
        x: features of owned rows, float32 ``[n, F]``, dense or sparse.
        y: labels of owned rows, int64 ``[n]`` (-1: none) or float32 ``[n, C]``.
        train_mask, val_mask, test_mask: bool ``[n]``.
        counts: whole-graph number of ``train``, ``val`` and ``test`` nodes.
        edge_tensors: what edges have beside weights, by name, ``[e, ...]`` each: edges of ``inner``, then of ``halo``.
    """

    graph: str
    rank: int
    num_parts: int
    num_nodes: int
    num_classes: int
    multi_label: bool
    ids: Tensor
    rows: Tensor
    num_boundary: int
    halo_ids: Tensor
    inner: Csr
    halo: Csr
    degree: Tensor
    symmetric_degree: Tensor
    send_index: Tensor
    send_counts: tuple[int, ...]
    recv_counts: tuple[int, ...]
    x: Tensor | Csr | None = None
    y: Tensor | None = None
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None
    counts: dict[str, int] = field(default_factory=dict)
    regression: bool = False
    edge_tensors: dict[str, Tensor] = field(default_factory=dict)

    def isolated(self) -> Shard:
        """The shard without the edges from other parts: nothing is sent, and degrees count the edges that are left."""
        none = torch.empty(0, dtype=torch.int64)
        return replace(
            self,
            num_boundary=0,
            halo_ids=none,
            halo=Csr(torch.zeros(self.num_owned + 1, dtype=torch.int64), none.int(), None, 0),
            degree=self.inner.degree(),
            symmetric_degree=symmetric_degree(self.inner),
            send_index=none,
            send_counts=(0,) * self.num_parts,
            recv_counts=(0,) * self.num_parts,
            edge_tensors={name: value[: self.inner.nnz] for name, value in self.edge_tensors.items()},
        )

    @property
    def num_owned(self) -> int:
        """The number of owned rows, ``n``."""
        return self.rows.numel()

    @property
    def num_halo(self) -> int:
        """The number of halo rows, ``h``."""
        return self.halo_ids.numel()

    @property
    def num_edges(self) -> int:
        """The number of edges into owned rows."""
        return self.inner.nnz + self.halo.nnz

    @property
    def num_features(self) -> int:
        """The number of columns of ``x``; 0 without features."""
        return 0 if self.x is None else self.x.shape[1]

    def symmetric(self) -> tuple[Csr, Csr]:
        """Owned rows of ``D^-1/2 (A + I) D^-1/2`` as ``(inner [n, n], halo [n, h])``.

        ``D`` is the whole-graph in-degree with self loops; a row that has a self loop keeps it instead of gaining one.
        """
        scale = inverse_sqrt(self.symmetric_degree)
        own, other = scale[: self.num_owned], scale[self.num_owned :]
        return scaled_by(with_self_loops(self.inner), own, own), scaled_by(self.halo, own, other)

    def looped(self) -> tuple[Csr, Csr]:
        """Owned rows of ``A + I`` as ``(inner [n, n], halo [n, h])``, with exactly one self loop per row."""
        return with_self_loops(self.inner), self.halo

    def mean(self) -> tuple[Csr, Csr]:
        """Owned rows of ``D^-1 A`` as ``(inner [n, n], halo [n, h])``; rows without in-edges stay zero."""
        scale = inverse(self.degree)
        return scaled_by(self.inner, scale), scaled_by(self.halo, scale)
