"""How the rows that travel in one layer and direction are spread over the network and the inside of machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch

from halowire.events import SETUP
from halowire.partitioning import Shard
from halowire.wire import Transport

LEAST_SAVING = 0.05
"""The share of the rows between machines that must be saved for rows to be handed on; see `HandOn`."""


@dataclass(frozen=True)
class Spread:
    """The share of the rows that crosses the network, and that of the rows that are sent within a machine.

    Rows that are handed on count where they cross the network and where they are handed on, so that the shares may add
    up to more than 1.
    """

    over: float
    within: float
    over_pairs: int
    within_pairs: int

    @staticmethod
    def of(shard: Shard, counts: Sequence[int], transport: Transport, once: bool) -> Spread:
        """Of ``counts[p]`` rows that arrive from every worker ``p``; all workers call this together.

        ``once``: a row that several workers of a machine need crosses the network once. Partial sums are taken to be
        shared as rows are: which of them are, the workers only agree on when they make the exchange.
        """
        machines, rank = transport.machines, transport.rank
        across = machines.elsewhere(rank)
        sent = torch.split(shard.send_index, list(shard.send_counts))
        needed = sum(compress(shard.send_counts, across))
        distinct = sum(torch.unique(torch.cat([sent[peer] for peer in of])).numel() for of in machines.others(rank))
        rows, between = sum(counts), sum(compress(counts, across))
        pairs = sum(count > 0 for count in counts), sum(count > 0 for count in compress(counts, across))
        found = torch.tensor([rows, between, needed, distinct, *pairs])
        total = transport.all_reduce(found, "reduction of the rows between machines", SETUP).tolist()
        rows, between, needed, distinct = total[:4]
        handed = 0.0
        if once and machines.shared and distinct <= (1 - LEAST_SAVING) * needed:
            handed = between * (1 - distinct / needed)
        over, within = between - handed, rows - between + handed
        return Spread(over / max(rows, 1), within / max(rows, 1), total[5], total[4] - total[5])
