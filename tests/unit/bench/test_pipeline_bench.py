"""The pipeline benchmark's arithmetic: formulas against counting edge by edge, the rate, structure-only graphs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from bench.pipeline.cases import WAYS, furnished
from bench.pipeline.formulas import Sizes, expected
from bench.timing.measured import Measured
from bench.timing.rate import PAYLOAD, find_rate, transfer_seconds, wire_share

from halowire.graph import Graph, load
from halowire.partitioning import partition, write_shards


def test_sizes_are_those_of_counting_edge_by_edge(tmp_path):
    torch.manual_seed(0)
    source, target = torch.randint(40, (700,)), torch.randint(120, (700,))
    labels, masks = torch.arange(120) % 3, dict.fromkeys(("train_mask", "val_mask", "test_mask"), torch.ones(120) > 0)
    graph = Graph.from_edge_index(torch.stack([source, target]), 120, torch.ones(120, 5), labels, **masks)
    owners = partition(graph, 2, "random", 0)
    write_shards(graph, owners, tmp_path / "shards")
    sizes, owner = Sizes.of(tmp_path / "shards"), owners.owner.tolist()
    halo, back = set(), set()
    for row in range(graph.num_nodes):
        for column in graph.adj.indices[graph.adj.indptr[row] : graph.adj.indptr[row + 1]].tolist():
            if owner[row] != owner[column]:
                halo.add((owner[row], column))
                back.add((owner[column], row))
    assert (sizes.halo, sizes.back) == (len(halo), len(back)) and len(halo) != len(back)
    assert (sizes.nodes, sizes.features, sizes.classes) == (graph.num_nodes, 5, 3)


def test_expected_bytes():
    sizes = Sizes(nodes=1000, features=50, classes=7, halo=60, back=40)
    deep, plain = 32 * 100, 30 * 100 + 7
    assert expected(sizes, "gcnii", 32, WAYS["graph parallel"]) == {"halo": 2 * 60 * 4 * deep, "stage": 0}
    assert expected(sizes, "gcn", 32, WAYS["graph parallel"]) == {"halo": 2 * 60 * 4 * plain, "stage": 0}
    assert expected(sizes, "gcn", 32, WAYS["pipeline"]) == {"halo": 0, "stage": 2 * 1000 * 100 * 4}
    assert expected(sizes, "gcnii", 32, WAYS["pipeline"]) == {"halo": 0, "stage": 4 * 1000 * 100 * 4}
    assert expected(sizes, "gcn", 32, WAYS["one-bit pipeline"]) == {"halo": 0, "stage": 2 * 1000 * 17}
    assert expected(sizes, "resgcn", 32, WAYS["hybrid"]) == {"halo": 100 * 4 * deep, "stage": 2 * 1000 * 100 * 4}


@pytest.mark.parametrize("hidden", [0.0, 0.6])
def test_the_rate_is_found_where_the_wire_is_the_wanted_share(hidden):
    def measured(seconds: float) -> Measured:
        return Measured(seconds, seconds, 0.0, 0.0, 1e8, 0.0, {}, 1, 0.0)

    null = measured(1.0)

    def probe(rate: int) -> Measured:
        return measured(1.0 - hidden + transfer_seconds(1e8, 2, rate))

    rate, found = find_rate(probe, null, 1e8, 2, 0.76, 0.035)
    assert abs(wire_share(found, null) - 0.76) <= 0.035
    assert math.isclose(found.seconds, 1.0 - hidden + 8e8 / 2 / (PAYLOAD * rate))


def test_a_structure_only_graph_gets_features_labels_and_a_split():
    graph = load("sbm:nodes=60,edges=300,features=4,classes=3,seed=0")
    bare = replace(graph, x=None, y=None, train_mask=None, val_mask=None, test_mask=None, num_classes=0)
    first, second = furnished(bare), furnished(bare)
    assert first.num_features == 100 and first.num_classes == 40
    assert torch.equal(first.x, second.x) and torch.equal(first.y, second.y)
    assert torch.equal(first.train_mask.int() + first.val_mask.int() + first.test_mask.int(), torch.ones(60).int())
    assert furnished(graph) is graph
