"""How many values the rows hold that are sent once, before training: features are counted, their sums are sampled.

A sum of ``t`` stored values has fewer of its own, since neighbours have columns in common. How many, no formula says:
independent columns would give two to three times what neighbours of real graphs do. So the sums of some rows are added
up. For each of their neighbours on other workers, whose features are not here, a row that is here stands in.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr, side_by_side, sparse_product
from halowire.layers import densify
from halowire.partitioning import Shard
from halowire.wire import Form, counts_of

SAMPLE = 300
"""Rows whose sums are added up on every worker."""
COUNTS = 6
"""Numbers of `Held`."""


@dataclass(frozen=True)
class Held:
    """What rows hold that go over the network (first) and to workers of the same machine (second).

    Attributes:
        rows, entries: their number, and that of their values that are not zero.
        lossy, weighted: whether bf16 loses something, and whether some of these values are not 1.
    """

    rows: tuple[float, float]
    entries: tuple[float, float]
    lossy: float
    weighted: float

    @staticmethod
    def of(numbers: list[float]) -> Held:
        """From what :meth:`numbers` gave, also added up over workers."""
        return Held((numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4], numbers[5])

    def numbers(self) -> list[float]:
        """All numbers, in one list."""
        return [*self.rows, *self.entries, self.lossy, self.weighted]

    def sizes(self, width: int) -> tuple[float, float]:
        """Bytes of both in the smallest form for rows of ``width`` columns."""
        form = Form.of_counts([sum(self.rows), sum(self.entries), self.lossy, self.weighted], width)
        over, within = (form.size(*held, width) for held in zip(self.rows, self.entries, strict=True))
        return over, within

    @property
    def per_row(self) -> float:
        """Values that are not zero, in the mean."""
        return sum(self.entries) / max(1.0, sum(self.rows))


def held_features(shard: Shard, crossing: Tensor) -> Held:
    """The features of the rows that this worker sends, of which ``crossing``, bool, go over the network."""
    index = shard.send_index
    own = densify(_features(shard))
    rows = own.select_rows(index) if isinstance(own, Csr) else own[index]
    _, _, lossy, weighted = counts_of(rows).tolist()
    stored = rows.indptr.diff() if isinstance(rows, Csr) else (rows != 0).sum(1)
    over, within = float(stored[crossing].sum()), float(stored[~crossing].sum())
    return Held(_split(crossing), (over, within), lossy, weighted)


def held_sums(shard: Shard, crossing: Tensor, loops: bool) -> Held:
    """The sums over edges of the features of the same rows, from a sample; ``loops``: with the rows' own features.

    Means and normalised sums are fractions, which bf16 does not hold.
    """
    rows = _split(crossing)
    each = _mean_entries(shard, loops)
    return Held(rows, (each * rows[0], each * rows[1]), 1.0, 1.0)


def _features(shard: Shard) -> Tensor | Csr:
    assert shard.x is not None
    return shard.x


def _split(crossing: Tensor) -> tuple[float, float]:
    over = float(crossing.sum())
    return over, crossing.numel() - over


def _mean_entries(shard: Shard, loops: bool) -> float:
    """The mean number of values that are not zero in the sum of a row that is sent."""
    sent, x = shard.send_index, _features(shard)
    if not sent.numel():
        return 0.0
    draw = torch.Generator().manual_seed(shard.rank)
    picked = sent[torch.randperm(sent.numel(), generator=draw)[:SAMPLE]]
    edges = side_by_side(shard.inner.select_rows(picked).with_weight(None), _standing_in(shard, picked, draw))
    if loops:
        edges = side_by_side(edges, Csr.from_edges(torch.arange(picked.numel()), picked, picked.numel(), x.shape[0]))
    read = edges.indices.long() % x.shape[0]
    if isinstance(x, Csr):
        edges = Csr(edges.indptr, read.int(), None, x.num_rows)
        return sparse_product(edges, x.with_weight(None)).nnz / picked.numel()
    near, place = torch.unique(read, return_inverse=True)
    found = Csr(edges.indptr, place.int(), None, near.numel()).matmul((x[near] != 0).float())
    return int((found != 0).sum()) / picked.numel()


def _standing_in(shard: Shard, picked: Tensor, draw: torch.Generator) -> Csr:
    """For the edges into the ``picked`` rows from halo rows, edges from owned rows that are like these.

    Another neighbour of a halo row is. One that the row reads already would bring no value of its own: then any row
    that is sent stands in.
    """
    edges, n, sent = shard.halo.select_rows(picked), shard.num_owned, shard.send_index
    readers, inner = shard.halo.transpose(), shard.inner.select_rows(picked)
    row, column = edges.row_index(), edges.indices.long()
    counts = readers.indptr.diff()[column]
    chosen = readers.indices[readers.indptr[column] + (torch.rand(column.numel(), generator=draw) * counts).long()]
    pair = row * n + chosen
    known = torch.cat([inner.row_index() * n + inner.indices, torch.arange(picked.numel()) * n + picked])
    taken = torch.isin(pair, known) | _repeated(pair)
    others = sent[torch.randint(sent.numel(), (column.numel(),), generator=draw)]
    return Csr(edges.indptr, torch.where(taken, others, chosen.long()).int(), None, n)


def _repeated(values: Tensor) -> Tensor:
    """Which of the ``values`` were there before, bool."""
    number, place = torch.arange(values.numel()), torch.unique(values, return_inverse=True)[1]
    first = torch.full_like(number, values.numel()).scatter_reduce_(0, place, number, "amin")
    return first[place] != number
