"""Cutting a graph into shards, one part at a time: the rows of each part, its halo, and the edges into its rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from halowire.graph import Graph, symmetric_degree
from halowire.kernels import Csr
from halowire.partitioning.partition import Partition
from halowire.partitioning.shard import Shard


def cut(graph: Graph, partition: Partition) -> list[Shard]:
    """All shards of ``graph``, in rank order; every edge is in exactly one of them, with its destination's owner."""
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
    counts = {
        name: 0 if mask is None else int(mask.sum())
        for name, mask in (("train", graph.train_mask), ("val", graph.val_mask), ("test", graph.test_mask))
    }
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
            ids=graph.ids[rows],
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
            x=graph.x.select_rows(rows) if isinstance(graph.x, Csr) else _pick(graph.x, rows),
            y=_pick(graph.y, rows),
            train_mask=_pick(graph.train_mask, rows),
            val_mask=_pick(graph.val_mask, rows),
            test_mask=_pick(graph.test_mask, rows),
            counts=dict(counts),
            regression=graph.regression,
            edge_tensors=_edge_tensors(graph, rows, place, halo.numel()),
        )


def group_by_owner(owner: Tensor, num_parts: int) -> list[Tensor]:
    """Graph rows of every part, ascending; ``num_parts`` int64 tensors."""
    order = torch.argsort(owner, stable=True)
    return list(torch.split(order, torch.bincount(owner, minlength=num_parts).tolist()))


def halo_of(adj: Csr, owner: Tensor, rows: Tensor, part: int) -> Tensor:
    """Graph rows that ``rows`` (those of ``part``) read and ``part`` does not own, int64 ``[h]``.

    Grouped by owner ascending, ascending by graph row within an owner.
    """
    needed = torch.zeros(adj.num_cols, dtype=torch.bool)
    needed[adj.select_rows(rows).indices.long()] = True
    needed &= owner != part
    halo = needed.nonzero().flatten()
    return halo[torch.argsort(owner[halo], stable=True)]


def _edge_tensors(graph: Graph, rows: Tensor, place: Tensor, num_halo: int) -> dict[str, Tensor]:
    """The tensors of the edges into ``rows``, in the order of the two matrices that `_edges` makes."""
    if not graph.edge_tensors:
        return {}
    adj, num_owned = graph.adj, rows.numel()
    entry = adj.entries_of(rows)
    row = torch.repeat_interleave(torch.arange(num_owned), adj.indptr.diff()[rows])
    col = place[adj.indices[entry].long()]
    # Inner before halo, by row, then by column; entries that are alike stay in their order, as they do in a matrix.
    key = (col >= num_owned).long() * num_owned * (num_owned + num_halo) + row * (num_owned + num_halo) + col
    order = entry[torch.argsort(key, stable=True)]
    return {name: value[order] for name, value in graph.edge_tensors.items()}


def _pick(values: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if values is None else values[rows]


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
