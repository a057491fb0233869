"""Masks of all parts together must have as many nodes as the manifest says, or the loss would be divided wrongly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.graph import block_model
from halowire.partitioning import partition, read_shard, write_shards
from halowire.training import refuse_other_counts
from halowire.wire import Transport
from tests.support.rewritten_shards import change_manifest


def shards(folder: Path, **changed: int) -> Path:
    """A graph of two parts, whose manifest says other ``changed`` numbers of marked nodes."""
    graph = block_model(60, 300, 4, 3, seed=0)
    write_shards(graph, partition(graph, 2, method="random", seed=0), folder)
    change_manifest(folder, lambda manifest: [part["shard"]["counts"].update(changed) for part in manifest["parts"]])
    return folder


def said_here(rank: int, folder: Path, parts: int) -> str:
    transport = Transport(deadline=30)
    shard = read_shard(folder, rank % parts)
    try:
        refuse_other_counts(shard, transport)
    except InputError as error:
        return str(error)
    return "good"


@pytest.mark.parametrize("workers", [2, 4])
def test_all_workers_refuse_a_number_that_the_parts_do_not_add_up_to(on_workers, tmp_path, workers):
    good, bad = shards(tmp_path / "good"), shards(tmp_path / "bad", val=10**17)
    marked = sum(int(read_shard(good, part).val_mask.sum()) for part in range(2))
    assert on_workers(workers, said_here, good, 2) == ["good"] * workers
    assert (
        on_workers(workers, said_here, bad, 2)
        == [
            f"the manifest of the shards says that {10**17} nodes are in val_mask, but the parts mark {marked}; "
            "partition the graph again or copy the folder again"
        ]
        * workers
    )


def test_without_masks_no_node_may_be_counted(tmp_path):
    graph = block_model(60, 300, 4, 3, seed=0)
    write_shards(graph, partition(graph, 1, method="random", seed=0), tmp_path / "shards")
    shard = replace(read_shard(tmp_path / "shards", 0), train_mask=None)
    with pytest.raises(InputError, match=r"\d+ nodes are in train_mask, but the parts mark 0"):
        refuse_other_counts(shard, Transport())
    refuse_other_counts(replace(shard, counts=shard.counts | {"train": 0}), Transport())
