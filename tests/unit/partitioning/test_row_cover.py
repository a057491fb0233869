"""Covers of cut edges: counted by hand, kept in the shards, and computed where shards lack them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from halowire.graph import Graph
from halowire.partitioning import Partition, Quality, cut, read_manifest, read_shard, summed_pairs, write_shards
from tests.support.awkward_graphs import awkward


def spokes() -> tuple[Graph, Partition]:
    """Part 0 owns 0 to 3, part 1 owns 4 to 6: node 4 reads all of 0 to 3, nodes 5 and 6 read 3 as well."""
    edges = torch.tensor([[0, 1, 2, 3, 3, 3], [4, 4, 4, 4, 5, 6]])
    return Graph.from_edge_index(edges, 7), Partition(torch.tensor([0, 0, 0, 0, 1, 1, 1]), 2)


def test_a_hub_is_sent_and_leaves_are_added_up() -> None:
    shard = cut(*spokes())[1]
    assert shard.halo_ids.tolist() == [0, 1, 2, 3]
    assert shard.cover().tolist() == [False, False, False, True]
    assert shard.cover_counts() == (2, 0), "the row of 3, and the sum of 0, 1 and 2 for node 4"
    part, target, of_edge = summed_pairs(shard.halo, shard.cover(), shard.recv_counts)
    assert (part.tolist(), shard.ids[target].tolist(), of_edge.tolist()) == ([0], [4], [0, 0, 0])


def test_shards_keep_the_cover_and_the_manifest_counts_it(tmp_path: Path) -> None:
    graph, owners = spokes()
    folder = write_shards(graph, owners, tmp_path / "shards")
    shard = read_shard(folder, 1)
    assert shard.halo_covered is not None and shard.halo_covered.tolist() == [False, False, False, True]
    quality = Quality.from_json(read_manifest(folder)["quality"])
    assert (quality.halo_rows, quality.cover_rows) == ((0, 4), (0, 2))
    assert any("4 in all; 2 with partial sums (--wire.cover)" in line for line in quality.lines())


def test_shards_of_earlier_versions_have_the_same_cover() -> None:
    graph = awkward(60, 400)
    for shard in cut(graph, Partition(torch.arange(60) % 3, 3)):
        assert torch.equal(replace(shard, halo_covered=None).cover(), shard.cover())
        assert sum(shard.cover_counts()) <= shard.num_halo
        assert shard.isolated().cover_counts() == (0, 0, 0)
