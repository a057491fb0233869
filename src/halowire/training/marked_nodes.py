"""The parts together mark as many nodes as the manifest says: the loss is divided by that number on every worker."""

from __future__ import annotations

import torch

from halowire.errors import InputError
from halowire.partitioning import Shard
from halowire.wire import Transport


def refuse_other_counts(shard: Shard, transport: Transport) -> None:
    """Refuse, on all workers, shards whose masks do not add up to the numbers of nodes that every part was told.

    All workers call this together. Every part is held by as many workers as there are stages.
    """
    masks = {"train": shard.train_mask, "val": shard.val_mask, "test": shard.test_mask}
    held = torch.tensor([0 if mask is None else int(mask.sum()) for mask in masks.values()])
    transport.all_reduce(held, "comparison of the marked nodes", account=None)
    holders = transport.size // shard.num_parts
    for name, count in zip(masks, held.tolist(), strict=True):
        told = shard.counts.get(name, 0)
        if count != told * holders:
            raise InputError(
                f"the manifest of the shards says that {told} nodes are in {name}_mask, but the parts mark "
                f"{count // holders}; partition the graph again or copy the folder again"
            )
