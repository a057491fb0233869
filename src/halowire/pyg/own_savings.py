"""What a model of one's own need not send: partial sums in the place of rows, and first rows computed at home."""

from __future__ import annotations

from collections.abc import Collection

import torch

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.pyg.data_part import ShardData
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.trial import Rehearsed
from halowire.training import Config, PartialSums, Savings, against_cover, choose_cover
from halowire.wire import sample_size

NO_LAYER = "no layer of the model adds rows up with edges and weights that stay the same from pass to pass"
"""Why partial sums are of no use to a model: a sum is added up by its sender, with weights that were agreed on once."""


def own_savings(known: Rehearsed, part: ShardData | HeteroShardData, config: Config) -> Savings:
    """The choice for calls of a model whose rehearsal found ``known``; all workers call this together."""
    if part.transport.size == 1 or not (known.widths or known.saved):
        return Savings()
    return Savings(cover_of(known, part, config), known.first)


def cover_of(known: Rehearsed, part: ShardData | HeteroShardData, config: Config) -> PartialSums:
    """Whether partial sums travel, for the layers that can have them."""
    if known.widths and not known.sums and config.wire.cover == "on":
        raise InputError(
            f"--wire.cover on sends sums of rows, but {NO_LAYER}; pass data.edge_index and weights of data to layers "
            "such as GCNConv or SAGEConv (sum or mean) as they are, or use --wire.cover auto"
        )
    against = against_cover(config) or ("" if known.sums else NO_LAYER)
    if isinstance(part, ShardData):
        return choose_cover(part.shard, config, part.transport, against)
    return PartialSums(False, f"because {NO_LAYER}", 0)


def travelling(
    known: Rehearsed, part: ShardData | HeteroShardData, savings: Savings, share: float
) -> tuple[list[int], list[int], dict[str, int]]:
    """For every coded exchange the rows of all workers that travel where a ``share`` does, and their messages.

    The rows that arrive at this worker come last, by the number of the exchange; those that are computed at home have
    names of their own. All workers call this together.
    """
    counts: dict[str, Collection[int]] = {name: halo.recv_counts for name, halo in part.halos.items()}
    kinds = list(known.halos)
    if savings.covers and isinstance(part, ShardData):
        counts[IN_PLACE] = part.shard.cover_counts()
        kinds = [IN_PLACE if number in known.sums else name for number, name in enumerate(kinds, 1)]
    sizes = [(sum(sample_size(count, share) for count in of), sum(count > 0 for count in of)) for of in counts.values()]
    total = part.transport.all_reduce(torch.tensor(sizes), "reduction of the sizes", SETUP).tolist()
    of_all = dict(zip(counts, total, strict=True))
    return (
        [of_all[kind][0] for kind in kinds],
        [of_all[kind][1] for kind in kinds],
        {f"{AT_HOME} {number}": 0 for number in range(1, len(known.saved) + 1)}
        | {str(number): sum(counts[kind]) for number, kind in enumerate(kinds, 1)},
    )


AT_HOME = "at home"
"""Stands before the numbers of exchanges that are not needed."""
IN_PLACE = "partial sums"
"""Stands among the names of halos for the rows and partial sums in the place of the halo of a `ShardData`."""
