"""Every partitioner: complete, balanced, repeatable, and clear about what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymetis
import pytest
import torch

from halowire.errors import InputError
from halowire.graph import Graph
from halowire.partitioning import Partition, fill_empty, measure, partition
from halowire.partitioning.partition import METHODS
from tests.support.awkward_graphs import awkward


def ring(num_nodes: int) -> Graph:
    """Node i is joined with i + 1, both ways."""
    node = torch.arange(num_nodes)
    other = (node + 1) % num_nodes
    return Graph.from_edge_index(torch.stack([torch.cat([node, other]), torch.cat([other, node])]), num_nodes)


def communities(num_groups: int, size: int) -> Graph:
    """Dense groups joined in a ring by single edges, with shuffled node numbers."""
    generator = torch.Generator().manual_seed(1)
    pair = torch.combinations(torch.arange(size))
    groups = torch.cat([pair + group * size for group in range(num_groups)])
    bridge = torch.tensor([[g * size, ((g + 1) % num_groups) * size + 1] for g in range(num_groups)])
    edges = torch.cat([groups, bridge])
    edges = torch.randperm(num_groups * size, generator=generator)[torch.cat([edges, edges.flip(1)])]
    return Graph.from_edge_index(edges.T, num_groups * size)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_every_node_has_an_owner_and_no_part_is_empty(method: str, parts: int) -> None:
    made = partition(awkward(), parts, method)
    assert made.owner.shape == (30,) and made.owner.dtype == torch.int64
    assert made.sizes().numel() == parts and int(made.sizes().min()) > 0
    assert (made.num_parts, made.method) == (parts, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_edges", [0, 3, 40])
def test_tiny_graphs_with_one_part_per_node(method: str, num_edges: int, capfd: pytest.CaptureFixture[str]) -> None:
    # A hypergraph is cut by a process of its own, which takes time to start.
    for num_nodes in (2, 5) if method == "hypergraph" else (1, 2, 5, 11):
        for parts in {1, (num_nodes + 1) // 2, num_nodes}:
            assert int(partition(awkward(num_nodes, num_edges), parts, method).sizes().min()) > 0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("method", METHODS)
def test_equal_calls_give_equal_owners(method: str) -> None:
    graph = awkward(300, 2000)
    first, second = (partition(graph, 4, method, seed=5) for _ in range(2))
    assert torch.equal(first.owner, second.owner)


@pytest.mark.parametrize("method", ["random", "metis", "hypergraph", "kaminpar"])
def test_the_seed_matters(method: str) -> None:
    graph = awkward(300, 2000)
    assert not torch.equal(partition(graph, 4, method, seed=1).owner, partition(graph, 4, method, seed=2).owner)


def test_huge_seeds_are_accepted() -> None:
    for method in METHODS:
        partition(awkward(), 3, method, seed=2**40 + 1)
        partition(awkward(), 3, method, seed=2**63 - 1)


def test_numpy_integers_are_whole_numbers() -> None:
    made = partition(awkward(), np.int64(2), seed=np.int32(5))  # type: ignore[arg-type]
    assert (type(made.num_parts), type(made.seed)) == (int, int)


@pytest.mark.parametrize("method", METHODS)
def test_nodes_and_edges_are_balanced(method: str) -> None:
    quality = measure(ring(1000), partition(ring(1000), 4, method))
    assert quality.node_imbalance < 1.15 and quality.edge_imbalance < 1.15


def test_range_is_ascending_and_follows_the_edges() -> None:
    owner = partition(ring(100), 4, "range").owner
    assert torch.equal(owner, torch.arange(100) // 25)
    star = Graph.from_edge_index(torch.stack([torch.arange(1, 50), torch.zeros(49, dtype=torch.int64)]), 50)
    made = partition(star, 5, "range")
    assert bool((made.owner.diff() >= 0).all()) and int(made.sizes()[0]) == 1


@pytest.mark.parametrize(
    ("method", "limit"), [("metis", 0.01), ("hypergraph", 0.01), ("kaminpar", 0.01), ("stream", 0.35)]
)
def test_communities_stay_together(method: str, limit: float) -> None:
    graph = communities(16, 40)
    assert measure(graph, partition(graph, 4, method)).cut_share < limit
    assert measure(graph, partition(graph, 4, "random")).cut_share > 0.7


@pytest.mark.parametrize(
    "options", [{"objective": "volume"}, {"recursive": False}, {"recursive": True}, {"objective": "cut"}]
)
def test_metis_options(options: dict[str, Any]) -> None:
    graph = communities(16, 40)
    for parts in (4, 12):
        assert measure(graph, partition(graph, parts, "metis", **options)).cut_share < 0.3


def test_metis_refuses_what_its_integers_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pymetis, "zero_copy_dtype", lambda: np.dtype(np.int8))
    with pytest.raises(InputError, match=r"too large for METIS with 8-bit integers: use method 'kaminpar' or 'stream'"):
        partition(awkward(), 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": 0}, "give 1 or more"),
        ({"parts": 2.0}, r"2\.0 parts were asked for: give a whole number"),
        ({"parts": "2"}, "'2' parts were asked for: give a whole number"),
        ({"parts": 2, "seed": -1}, "seed is -1, expected 0 to"),
        ({"parts": 2, "seed": 2**63, "method": "random"}, f"seed is {2**63}, expected 0 to"),
        ({"parts": 2, "seed": 0.5}, "seed is 0.5, expected a whole number"),
        ({"parts": 31}, "31 parts were asked for, but the graph has 30 nodes"),
        (
            {"parts": 2, "method": "spectral"},
            "'spectral' is unknown: use one of metis, hypergraph, kaminpar, random, range, stream, auto",
        ),
        ({"parts": 2, "balance": "edges"}, "balance 'edges' is unknown: use one of auto, both, nodes"),
        ({"parts": 2, "method": "random", "balance": "both"}, "does not take balance: it takes no options"),
        ({"parts": 2, "method": "random", "slack": 1}, "does not take slack: it takes no options"),
        ({"parts": 2, "method": "stream", "slack": -1.0}, "slack is -1.0"),
        ({"parts": 2, "objective": "speed"}, "objective 'speed' is unknown"),
        ({"parts": 2, "objective": "volume", "recursive": True}, "only by k-way"),
    ],
)
def test_bad_requests_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        partition(awkward(), **arguments)


def test_owners_are_checked() -> None:
    with pytest.raises(InputError, match=r"run from 0 to 2, but must lie in 0\.\.1"):
        Partition(torch.tensor([0, 2]), 2)
    with pytest.raises(InputError, match="must be int64"):
        Partition(torch.tensor([0.0, 1.0]), 2)


def test_empty_parts_take_the_lightest_nodes_of_the_largest_part() -> None:
    graph = ring(6)
    owner = fill_empty(torch.tensor([0, 0, 0, 0, 0, 3]), 4, graph.adj)
    assert owner.tolist() == [0, 0, 0, 2, 1, 3]
