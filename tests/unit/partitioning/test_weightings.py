"""Weightings: the first one that leaves no part too large, else of the levelled cuts that with the fewest halo rows."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

from halowire.graph import Graph
from halowire.partitioning import measure, partition, weightings
from halowire.partitioning.levelling import LARGEST_PART, least_largest
from halowire.partitioning.part_load import DEFAULT_WIDTHS, PartLoad
from halowire.partitioning.weightings import best_weighting


def star(leaves: int) -> Graph:
    """Every leaf reads the hub, and the hub every leaf."""
    hub, leaf = torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1)
    return Graph.from_edge_index(torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])]), leaves + 1)


def cuts_of(sizes: dict[float, int], asked: list[float]):
    """A partitioner of eight nodes that gives ``sizes[edges]`` nodes to part 0 and notes what it was asked."""

    def cut(edges: float) -> Tensor:
        asked.append(edges)
        return (torch.arange(8) >= sizes[edges]).long()

    return cut


def ring(count: int = 8) -> Graph:
    node = torch.arange(count)
    return Graph.from_edge_index(torch.stack([node, (node + 1) % count]), count)


def test_a_good_cut_is_kept_without_further_tries() -> None:
    asked: list[float] = []
    owner, said = best_weighting(ring(), 2, (1.0, 0.5), (8,), cuts_of({1.0: 4}, asked), lambda line: None)
    assert asked == [1.0] and said == () and owner.tolist() == [0] * 4 + [1] * 4


def test_every_cut_is_levelled_where_none_is_good_enough() -> None:
    """In a ring of 8 nodes every cut of 4 and 4 consecutive nodes has as many halo rows: the first one is kept."""
    asked: list[float] = []
    cut = cuts_of({1.0: 7, 0.5: 5, 2.0: 6}, asked)
    owner, said = best_weighting(ring(), 2, (1.0, 0.5, 2.0), (8,), cut, lambda line: None)
    assert asked == [1.0, 0.5, 2.0] and int((owner == 0).sum()) == 4
    assert PartLoad.of(ring(), owner, 2, (8,)).largest() <= LARGEST_PART
    assert said == (
        "the largest part over the mean was 1.75 (edges weigh 1), 1.25 (edges weigh 0.5), 1.50 (edges weigh 2): "
        "1.00 with edges that weigh 1 is kept, after 3 nodes moved out of the largest parts",
    )


def test_trying_stops_at_the_first_cut_that_is_good_enough() -> None:
    asked: list[float] = []
    best_weighting(ring(), 2, (1.0, 0.5, 2.0), (8,), cuts_of({1.0: 7, 0.5: 4}, asked), lambda line: None)
    assert asked == [1.0, 0.5]


def test_a_graph_that_forbids_balance_says_what_was_tried() -> None:
    graph = star(300)
    made = partition(graph, 8)
    assert PartLoad.of(graph, made.owner, 8, (256, 256)).largest() > LARGEST_PART
    assert len(made.choices) == 1 and "edges weigh 0.5" in made.choices[0]
    assert "the part that owns the node with the most in-edges has at least " in made.choices[0]
    assert f"choice      {made.choices[0]}" in measure(graph, made).lines()
    assert partition(graph, 8, balance="both").choices == ()


def hub_graph(degree: int, nodes: int = 4000) -> Graph:
    """Random edges, more of them into nodes with small numbers, and a hub that reads ``degree`` nodes."""
    draw = torch.Generator().manual_seed(0)
    source = torch.randint(nodes, (4 * nodes,), generator=draw)
    target = (nodes * torch.rand(4 * nodes, generator=draw) ** 2).long()
    read = torch.randperm(nodes, generator=draw)[:degree]
    edges = torch.stack([torch.cat([source, read]), torch.cat([target, torch.zeros_like(read)])])
    return Graph.from_edge_index(edges, nodes, torch.randn(nodes, 16, generator=draw))


@pytest.mark.parametrize("degree", [2850, 3000])
def test_a_bound_that_the_graph_allows_is_kept_also_where_a_hub_comes_near_to_it(degree: int) -> None:
    graph = hub_graph(degree)
    made = partition(graph, 8, "metis")
    load = PartLoad.of(graph, made.owner, 8, DEFAULT_WIDTHS)
    assert 1 < least_largest(graph, load) < LARGEST_PART
    assert load.largest() <= LARGEST_PART and "nodes moved" in made.choices[0]


def test_of_levelled_cuts_that_are_good_the_one_with_fewer_halo_rows_is_kept() -> None:
    """Both give parts of 4 and 4; in the first every second node is in the other part."""
    cuts = {1.0: torch.tensor([0, 1, 0, 1, 0, 1, 0, 0]), 0.5: torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])}
    owner, said = best_weighting(ring(), 2, (1.0, 0.5), (8,), cuts.__getitem__, lambda line: None)
    assert sum(PartLoad.of(ring(), owner, 2, (8,)).halo_rows) == 2
    assert "with edges that weigh 0.5 is kept" in said[0]


def test_a_part_that_stays_too_large_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weightings, "levelled", lambda graph, owner, parts, widths: owner)
    cut = cuts_of({1.0: 7, 0.5: 6}, [])
    owner, said = best_weighting(ring(), 2, (1.0, 0.5), (8,), cut, lambda line: None)
    assert int((owner == 0).sum()) == 6
    assert said[0].endswith("; it should be at most 1.15, but no other node that could be moved made it smaller")


def test_work_and_memory_counted_by_hand() -> None:
    # 0 and 1 are in part 0, 2 in part 1; edges 0 -> 1, 2 -> 1, 0 -> 2.
    graph = Graph.from_edge_index(torch.tensor([[0, 2, 0], [1, 1, 2]]), 3, x=torch.zeros(3, 5))
    load = PartLoad.of(graph, torch.tensor([0, 0, 1]), 2, (10, 20))
    assert (load.nodes, load.edges, load.halo_rows) == ((2, 1), (2, 1), (1, 1))
    assert load.work() == [2 / 3 + 2 / 3, 1 / 3 + 1 / 3]
    row, halo = 4 * 5 + 3 * 4 * 30, 4 * 30
    assert load.memory() == [2 * row + halo + 2 * 16, row + halo + 16]
    assert load.largest() == 4 / 3


def test_a_slow_cut_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weightings, "TICK", 0.02)
    monkeypatch.setattr(weightings, "SLOW", 0.1)
    told: list[str] = []

    def cut(edges: float) -> Tensor:
        time.sleep(0.2)
        return (torch.arange(8) >= 4).long()

    best_weighting(ring(), 2, (1.0,), (8,), cut, told.append)
    assert len(told) > 2 and set(told[:-1]) == {"weighting 1 of up to 1: 0 s so far"}
    assert told[-1] == "weighting 1 of up to 1 took 0 s: largest part 1.00"
    count = len(told)
    time.sleep(0.1)
    assert len(told) == count, "nothing is told after the cut"
