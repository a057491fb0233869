"""How many rows cross the borders of a worker's part in every exchange, known before anything is exchanged."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.partitioning import Shard
from halowire.training.config import Config
from halowire.training.cover_choice import against_cover, pays


@dataclass(frozen=True)
class CrossingRows:
    """The rows of one exchange, seen from one worker.

    Attributes:
        arriving: rows that arrive, or rows and partial sums in their place; known exactly.
        sent: rows that are sent. Only the peers know which partial sums they want: as many are sent as arrive, in
            proportion to the rows without partial sums.
        summed: whether partial sums travel. Each worker judges ``--wire.cover auto`` by its own rows here, while a run
            judges it by those of all workers.
    """

    arriving: int
    sent: int
    summed: bool

    @staticmethod
    def of(shard: Shard, config: Config) -> CrossingRows:
        """The rows that ``config`` lets travel between the workers of ``shard`` and its peers."""
        halo, sent = shard.num_halo, shard.send_index.numel()
        plain = CrossingRows(halo, sent, summed=False)
        if config.wire.plain or config.wire.cover == "off" or against_cover(config) or not halo:
            return plain
        covered = sum(shard.cover_counts())
        if config.wire.cover == "auto" and not pays(halo, covered):
            return plain
        return CrossingRows(covered, round(sent * covered / halo), summed=True)
