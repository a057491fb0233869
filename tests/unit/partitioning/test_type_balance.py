"""Owners of all node types together: every type is shared, and little more is cut than without sharing."""

from __future__ import annotations

import math

import pytest
import torch

from halowire.graph import Graph
from halowire.partitioning import partition, type_owners
from halowire.partitioning.type_balance import SLACK, level, union_edges

COUNTS = {"paper": 400, "author": 200, "venue": 3}


def make_edges() -> dict[tuple[str, str, str], torch.Tensor]:
    """Four communities; nearly all authors belong to the first."""
    generator = torch.Generator().manual_seed(0)
    group = {
        "paper": torch.arange(400) % 4,
        "author": (torch.arange(200) % 10 - 6).clamp(min=0),
        "venue": torch.arange(3),
    }
    edges = {}
    for source, target, count in (("author", "paper", 900), ("paper", "paper", 1500), ("venue", "paper", 400)):
        ends = torch.stack(
            [torch.randint(COUNTS[name], (4 * count,), generator=generator) for name in (source, target)]
        )
        near = (group[source][ends[0]] == group[target][ends[1]]) | (torch.rand(4 * count, generator=generator) < 0.02)
        edges[source, "to", target] = ends[:, near][:, :count]
    return edges


@pytest.mark.parametrize("method", ["metis", "random", "range", "stream"])
@pytest.mark.parametrize("parts", [2, 4])
def test_no_part_has_more_than_its_share_of_a_type(method, parts):
    owner = type_owners(make_edges(), COUNTS, parts, method, 0)
    for name, count in COUNTS.items():
        sizes = torch.bincount(owner[name], minlength=parts)
        assert int(sizes.sum()) == count
        assert int(sizes.max()) <= max(1, math.ceil(count / parts * SLACK)), (name, sizes.tolist())


def test_nodes_move_where_their_edges_are():
    """All ten nodes of a type are in part 0; four must go, and those four have edges to part 1."""
    owner = torch.tensor([0] * 10 + [0, 1])
    going, staying = [1, 4, 5, 8], [0, 2, 3, 6, 7, 9]
    edges = torch.tensor([[*going, *([10] * 6)], [*([11] * 4), *staying]])
    level(owner, slice(0, 10), edges, 2)
    assert owner.tolist() == [1 if node in going else 0 for node in range(10)] + [0, 1]


def test_the_cut_stays_near_that_of_all_nodes_together():
    edges = make_edges()
    union = union_edges(edges, COUNTS)
    alone = partition(Graph.from_edge_index(union, sum(COUNTS.values())), 4, "metis", 0).owner
    owner = torch.cat(list(type_owners(edges, COUNTS, 4, "metis", 0).values()))
    random = torch.cat(list(type_owners(edges, COUNTS, 4, "random", 0).values()))
    cuts = [int((of[union[0]] != of[union[1]]).sum()) for of in (alone, owner, random)]
    assert cuts[1] < (cuts[0] + cuts[2]) / 2, cuts
