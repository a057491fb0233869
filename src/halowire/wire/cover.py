"""The cover of an exchange: rows and partial sums that travel in the place of all halo rows; both ends agree on it.

The receiver knows which of its edges have a source that travels itself; for each of its rows the other sources of a
peer become one partial sum, which the peer adds up with the true weights of the edges:

    sent = sums @ a[:b],          g[:b] += halo @ received,          ``sums`` [w, b], ``halo`` [n, m]

A row of ``sums`` is a boundary row itself (one entry, weight 1) or a partial sum, and a column of ``halo`` belongs to a
row (the weights of its edges) or to a partial sum (one entry, weight 1). The product of both is the matrix of the edges
between the two workers, so that ``g`` is exact; backward, ``halo^T`` and ``sums^T`` make the gradients exact too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr, empty, row_range
from halowire.partitioning import Shard, covered_rows, summed_pairs
from halowire.wire.arrived import refuse_outside, refuse_wrong
from halowire.wire.machine_cover import machine_cover
from halowire.wire.transport import Transport

SUM_ID = 1 << 62
"""Ids of partial sums have this bit, which tells their random numbers apart from those of rows."""
WHERE = "agreement on the partial sums"


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a worker wants from its peers: a list of rows and partial sums, grouped by peer.

    Attributes:
        counts: how many of them come from every peer.
        halo: the matrix ``[n, m]`` that adds them to the owned rows.
        ids: original ids of rows, and ids made from destination and peer for partial sums, int64 ``[m]``.
        lengths: number of rows of the peer that each is made of, int64 ``[m]``.
        places: these rows, as places among the rows that the peer would send without a cover, one list after another.
        weights: their weights, float32.
    """

    counts: list[int]
    halo: Csr
    ids: Tensor
    lengths: Tensor
    places: Tensor
    weights: Tensor

    @staticmethod
    def of(shard: Shard, halo: Csr, covered: Tensor) -> Wanted:
        """Cover the edges ``halo`` ``[n, h]`` from halo rows, which are normalised already.

        ``covered``, bool ``[h]``, are the halo rows that travel themselves.
        """
        counts = shard.recv_counts
        row, source = halo.row_index(), halo.indices.long()
        weight = torch.ones(halo.nnz) if halo.weight is None else halo.weight
        peer, target, of_edge = summed_pairs(halo, covered, counts)
        summed = ~covered[source]
        own = covered.nonzero().flatten()
        # A sum can leave when the last of its rows is computed: in this order what is listed first can leave first.
        last = torch.zeros(target.numel(), dtype=torch.int64).scatter_reduce_(0, of_edge, source[summed], "amax")
        needs = torch.cat([own * 2, last * 2 + 1])
        order = torch.argsort(needs, stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel())
        column = torch.zeros(shard.num_halo, dtype=torch.int64)
        column[own] = place[: own.numel()]
        of_sum = place[own.numel() :]
        matrix = Csr.from_edges(
            torch.cat([row[~summed], target]),
            torch.cat([column[source[~summed]], of_sum]),
            halo.num_rows,
            order.numel(),
            torch.cat([weight[~summed], torch.ones(target.numel())]),
        )
        owner = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        first = torch.tensor([0, *counts]).cumsum(0)[:-1]
        # Parallel edges are one entry of a sum, so that no sum has more rows than its sender.
        high = max(shard.num_halo, 1)
        keys = torch.cat([place[: own.numel()], of_sum[of_edge]]) * high + torch.cat([own, source[summed]])
        pairs, of_pair = torch.unique(keys, return_inverse=True)
        entries, sources = pairs // high, pairs % high
        weights = torch.zeros(pairs.numel())
        weights.index_add_(0, of_pair, torch.cat([torch.ones(own.numel()), weight[summed].float()]))
        sum_ids = (shard.ids[target] * shard.num_parts + peer) | SUM_ID
        return Wanted(
            torch.bincount(torch.cat([owner[own], peer]), minlength=len(counts)).tolist(),
            matrix,
            torch.cat([shard.halo_ids[own], sum_ids])[order],
            torch.bincount(entries, minlength=order.numel()),
            sources - first[owner[sources]],
            weights,
        )


@dataclass(frozen=True, eq=False)
class CoverLists:
    """The lists of an exchange of rows and partial sums, in the place of those of a shard; see `HaloLists`."""

    rank: int
    ids: Tensor
    halo_ids: Tensor
    send_index: Tensor
    send_counts: tuple[int, ...]
    recv_counts: tuple[int, ...]

    @property
    def num_owned(self) -> int:
        """Number of rows and partial sums that are sent."""
        return self.ids.numel()

    @property
    def num_boundary(self) -> int:
        """All of them are sent."""
        return self.ids.numel()

    @property
    def num_halo(self) -> int:
        """Number of rows and partial sums that arrive."""
        return self.halo_ids.numel()

    @property
    def symmetric_degree(self) -> Tensor:
        """Empty: partial sums have no degree."""
        return torch.empty(0)


@dataclass(frozen=True, eq=False)
class Cover:
    """What both ends of an exchange agreed on, seen from one worker.

    Attributes:
        sums: makes what is sent from boundary rows, ``[w, b]``; every row that several peers get is in it once.
        computed: how many boundary rows each row of ``sums`` needs, ascending, int64 ``[w]``, on the host.
        back: adds the gradients that arrive to the boundary rows, ``[b, m]``.
        lists: what is sent to every peer, and what arrives.
        halo: adds what arrives to the owned rows, ``[n, m']``.
    """

    sums: Csr
    computed: Tensor
    back: Csr
    lists: CoverLists
    halo: Csr

    @staticmethod
    def agree(shard: Shard, halo: Csr, transport: Transport, once: bool) -> Cover:
        """Tell every peer what this worker wants of it; all workers call this together.

        ``halo`` ``[n, h]`` are the normalised edges from halo rows: the shard's, or others. ``once``: rows cross the
        network once per machine.
        """
        # Any choice of rows that travel themselves is right; that of the shard's own edges was made before.
        covered = shard.cover() if halo.nnz == shard.halo.nnz else covered_rows(halo, shard.recv_counts)
        wanted = Wanted.of(shard, halo, machine_cover(shard, halo, covered, transport) if once else covered)
        sent = transport.swap_counts(wanted.counts, WHERE)
        lengths = transport.swap(wanted.lengths, wanted.counts, sent, WHERE)
        ids = transport.swap(wanted.ids, wanted.counts, sent, WHERE)
        asked = [int(part.sum()) for part in torch.split(wanted.lengths, wanted.counts)]
        most = [count + 1 for count in shard.send_counts]
        refuse_outside(lengths, sent, most, "the number of rows of a sum", transport, WHERE, low=1)
        given = [int(part.sum()) for part in torch.split(lengths, sent)]
        places = transport.swap(wanted.places, asked, given, WHERE)
        refuse_outside(places, given, shard.send_counts, "the place of a row", transport, WHERE)
        weights = transport.swap(wanted.weights, asked, given, WHERE)
        peer = torch.repeat_interleave(torch.arange(len(sent)), torch.tensor(given))
        first = torch.tensor([0, *shard.send_counts]).cumsum(0)[:-1]
        boundary = shard.send_index[places + first[peer]]
        _refuse_other_ids(shard, ids, sent, lengths, boundary, transport)
        place = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
        back = Csr.from_edges(boundary, place, shard.num_boundary, lengths.numel(), weights)
        sums, index, kept = _once(back.transpose(), ids)
        last = sums.indices.long()[sums.indptr[1:] - 1] + 1
        lists = CoverLists(shard.rank, ids[kept], wanted.ids, index, tuple(sent), tuple(wanted.counts))
        return Cover(sums, last, back, lists, wanted.halo)


def _refuse_other_ids(
    shard: Shard, ids: Tensor, sent: list[int], lengths: Tensor, boundary: Tensor, transport: Transport
) -> None:
    """Raise unless rows that travel themselves have their own ids, and sums ids that no other sum has.

    What has one id is computed once for all peers, so that a wrong one would give a peer another row.
    """
    summed = (ids & SUM_ID) != 0
    own = shard.ids[boundary[lengths.cumsum(0) - lengths]]
    refuse_wrong(~summed & ((lengths != 1) | (ids != own)), sent, "a row has another id", transport, WHERE)
    number, times = torch.unique(ids, return_inverse=True, return_counts=True)[1:]
    refuse_wrong(summed & (times[number] > 1), sent, "two sums have one id", transport, WHERE)


def _once(listed: Csr, ids: Tensor) -> tuple[Csr, Tensor, Tensor]:
    """Every row of ``listed`` ``[m, b]`` once, by the number of boundary rows that it needs.

    Returns these rows, the row that stands at every place of the list, and the first place of each row. Rows that
    several peers get have one id; a partial sum has an id of its own.
    """
    _, number = torch.unique(ids, return_inverse=True)
    first = torch.full((int(number.max()) + 1 if number.numel() else 0,), ids.numel(), dtype=torch.int64)
    first.scatter_reduce_(0, number, torch.arange(ids.numel()), "amin")
    needs = listed.indices.long()[listed.indptr[1:] - 1][first]
    order = torch.argsort(needs, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel())
    kept = first[order]
    return listed.select_rows(kept), rank[number], kept


class Lifted:
    """What one message sends, ``sums @ a`` ``[w, width]``, computed as far as the boundary rows ``a`` are."""

    def __init__(self, cover: Cover, width: int) -> None:
        self._cover = cover
        self._done = 0
        self.rows = empty(cover.sums.num_rows, width, device=cover.sums.indptr.device)

    def add(self, a: Tensor, stop: int) -> int:
        """Go on, now that the first ``stop`` rows of ``a`` ``[b, width]`` are computed; returns the rows that are."""
        ready = int(torch.searchsorted(self._cover.computed, stop, right=True))
        if ready > self._done:
            part = row_range(self._cover.sums, self._done, ready)
            part.matmul(a, out=self.rows[self._done : ready])
            self._done = ready
        return ready
