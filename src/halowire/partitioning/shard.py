"""A shard is what one worker holds: owned nodes, halo nodes, edges into owned nodes, and the rows for each peer.

A graph is cut into shards one part at a time: the rows of the part, its halo, and the edges into its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from halowire.graph import Graph, inverse, inverse_sqrt, scaled_by, symmetric_degree, with_self_loops
from halowire.kernels import Csr
from halowire.partitioning.owned_rows import group_by_owner, halo_of
from halowire.partitioning.partition import Partition
from halowire.partitioning.row_cover import cover_counts, covered_rows


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
        num_boundary: number of owned rows that some peer needs; they come first.
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
        halo_covered: the halo rows that travel themselves where the others travel as partial sums, bool ``[h]``; None
            in shards that an earlier version wrote, see :meth:`cover`.
        edge_tensors: further tensors of the edges, by name, ``[e, ...]`` each: edges of ``inner``, then of ``halo``.
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
    halo_covered: Tensor | None = None

    def isolated(self) -> Shard:
        """The shard without the edges from other parts: nothing is sent, and degrees count the remaining edges."""
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
            halo_covered=None,
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

    def cover(self) -> Tensor:
        """The halo rows that travel themselves where the others travel as partial sums, bool ``[h]``."""
        return covered_rows(self.halo, self.recv_counts) if self.halo_covered is None else self.halo_covered

    def cover_counts(self) -> tuple[int, ...]:
        """How many rows and partial sums come from every peer where they travel in the place of all halo rows."""
        return cover_counts(self.halo, self.cover(), self.recv_counts)

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


def cut(graph: Graph, partition: Partition) -> list[Shard]:
    """All shards of ``graph``, in rank order; every edge is in exactly one shard, that of its destination's owner."""
    return list(cut_each(graph, partition))


def cut_each(graph: Graph, partition: Partition) -> Iterator[Shard]:
    """The shards of ``graph`` one after the other, so that only one has to be in memory."""
    owner, parts = partition.owner, partition.num_parts
    partition.require_fit(graph)
    owned = group_by_owner(owner, parts)
    # A part's send lists are its peers' halos, so all halos come before the first shard.
    halos = [halo_of(graph.adj, owner, rows, part) for part, rows in enumerate(owned)]
    received = [torch.bincount(owner[halo], minlength=parts).tolist() for halo in halos]
    wanted = [torch.split(halo, counts) for halo, counts in zip(halos, received, strict=True)]
    degree, loop_degree = graph.adj.degree(), symmetric_degree(graph.adj)
    masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
    counts = {name: 0 if mask is None else int(mask.sum()) for name, mask in masks.items()}
    for part in range(parts):
        sent = [wanted[peer][part] for peer in range(parts)]
        outgoing = torch.cat(sent)
        is_boundary = torch.zeros(graph.num_nodes, dtype=torch.bool)
        is_boundary[outgoing] = True
        at_boundary = is_boundary[owned[part]]
        rows = torch.cat([owned[part][at_boundary], owned[part][~at_boundary]])
        halo = halos[part]
        place = torch.empty(graph.num_nodes, dtype=torch.int64)
        place[rows] = torch.arange(rows.numel())
        place[halo] = torch.arange(halo.numel()) + rows.numel()
        inner_edges, halo_edges = _edges(graph.adj, rows, place, halo.numel())
        yield Shard(
            graph=graph.name,
            rank=part,
            num_parts=parts,
            num_nodes=graph.num_nodes,
            num_classes=graph.num_classes,
            multi_label=graph.multi_label,
            rows=rows,
            num_boundary=int(at_boundary.sum()),
            halo_ids=graph.ids[halo],
            inner=inner_edges,
            halo=halo_edges,
            degree=degree[rows],
            symmetric_degree=loop_degree[torch.cat([rows, halo])],
            send_index=place[outgoing],
            send_counts=tuple(rows_sent.numel() for rows_sent in sent),
            recv_counts=tuple(received[part]),
            counts=dict(counts),
            regression=graph.regression,
            edge_tensors=_edge_tensors(graph, rows, place, halo.numel()),
            halo_covered=covered_rows(halo_edges, received[part]),
            **graph.of_nodes(rows),
        )


def _edge_tensors(graph: Graph, rows: Tensor, place: Tensor, num_halo: int) -> dict[str, Tensor]:
    """The tensors of the edges into ``rows``, in the order of the two matrices that `_edges` makes."""
    if not graph.edge_tensors:
        return {}
    adj, num_owned = graph.adj, rows.numel()
    entry = adj.entries_of(rows)
    row = torch.repeat_interleave(torch.arange(num_owned), adj.indptr.diff()[rows])
    col = place[adj.indices[entry].long()]
    # Inner before halo, by row, then by column; parallel edges keep their order, as they do in a matrix.
    key = (col >= num_owned).long() * num_owned * (num_owned + num_halo) + row * (num_owned + num_halo) + col
    order = entry[torch.argsort(key, stable=True)]
    return {name: value[order] for name, value in graph.edge_tensors.items()}


def _edges(adj: Csr, rows: Tensor, place: Tensor, num_halo: int) -> tuple[Csr, Csr]:
    """Edges into ``rows`` as ``(inner [n, n], halo [n, h])``; ``place`` maps graph rows to owned, then halo rows."""
    local, num_owned = adj.select_rows(rows), rows.numel()
    row, col = local.row_index(), place[local.indices.long()]
    is_inner = col < num_owned
    matrices = []
    for chosen, first, width in ((is_inner, 0, num_owned), (~is_inner, num_owned, num_halo)):
        weight = None if local.weight is None else local.weight[chosen]
        matrices.append(Csr.from_edges(row[chosen], col[chosen] - first, num_owned, width, weight))
    return matrices[0], matrices[1]
