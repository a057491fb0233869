"""Chunks: blocks of a part's rows that move through the stages together, and their order in every epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.kernels import Csr, row_keys
from halowire.partitioning import Shard, fill_empty, metis_owners

ORDER_STREAM = 400


@dataclass(frozen=True)
class Chunks:
    """The chunks of one part: chunk ``c`` is the rows ``bounds[c]`` to ``bounds[c + 1]``.

    The order of an epoch is a random permutation that depends on (seed, epoch, part) alone, so that every worker knows
    the order of every part; without ``shuffle`` all epochs have the order of epoch 0.
    """

    bounds: tuple[int, ...]
    part: int = 0
    seed: int = 0
    shuffle: bool = True

    @staticmethod
    def whole(rows: int) -> Chunks:
        """All rows as one chunk."""
        return Chunks((0, rows))

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.bounds) - 1

    def at(self, chunk: int) -> slice:
        """The rows of a chunk."""
        return slice(self.bounds[chunk], self.bounds[chunk + 1])

    def numbers(self) -> Tensor:
        """The chunk of every row, int64 ``[n]``."""
        sizes = torch.tensor(self.bounds).diff()
        return torch.repeat_interleave(torch.arange(self.count), sizes)

    def order(self, epoch: int, part: int | None = None) -> list[int]:
        """The chunks of ``part`` (by default this worker's part) in the order of ``epoch``."""
        epoch, part = epoch if self.shuffle else 0, self.part if part is None else part
        keys: Tensor = row_keys(self.seed, epoch, part, torch.arange(self.count), ORDER_STREAM)
        return [int(chunk) for chunk in keys.argsort()]


def chunk_numbers(shard: Shard, count: int, seed: int) -> Tensor:
    """The chunk of every owned row, int64 ``[n]``, by METIS on the edges inside the part; no chunk is empty."""
    if count == 1:
        return torch.zeros(shard.num_owned, dtype=torch.int64)
    return fill_empty(metis_owners(shard.inner, count, seed), count, shard.inner)


def renumber(shard: Shard, numbers: Tensor, count: int) -> tuple[Shard, tuple[int, ...]]:
    """``shard`` with its rows ordered by chunk, and the bounds of the chunks.

    Original ids and rows of the user's graph move along, so dropout, codes and outputs stay what they were. Rows that
    peers need no longer come first: ``num_boundary`` becomes the number of rows up to the last of them.
    """
    order = numbers.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    inner = shard.inner.select_rows(order)
    moved = Csr.from_edges(inner.row_index(), place[inner.indices.long()], inner.num_rows, inner.num_cols, inner.weight)
    n = shard.num_owned
    send_index = place[shard.send_index]
    x = shard.x
    found = replace(
        shard,
        ids=shard.ids[order],
        rows=shard.rows[order],
        num_boundary=int(send_index.max()) + 1 if send_index.numel() else 0,
        inner=moved,
        halo=shard.halo.select_rows(order),
        degree=shard.degree[order],
        symmetric_degree=torch.cat([shard.symmetric_degree[:n][order], shard.symmetric_degree[n:]]),
        send_index=send_index,
        x=x.select_rows(order) if isinstance(x, Csr) else _pick(x, order),
        y=_pick(shard.y, order),
        train_mask=_pick(shard.train_mask, order),
        val_mask=_pick(shard.val_mask, order),
        test_mask=_pick(shard.test_mask, order),
    )
    bounds = torch.bincount(numbers, minlength=count).cumsum(0).tolist()
    return found, (0, *bounds)


def _pick(values: Tensor | None, order: Tensor) -> Tensor | None:
    return None if values is None else values[order]
