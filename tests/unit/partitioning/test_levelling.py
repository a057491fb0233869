"""Levelling: nodes leave a part that is too large, and no bound is asked for that the graph forbids."""

from __future__ import annotations

import pytest
import torch

from halowire.graph import Graph
from halowire.partitioning.levelling import LARGEST_PART, LEEWAY, goal, least_largest, levelled
from halowire.partitioning.part_load import EDGE_BYTES, PartLoad

WIDTHS = (256, 256)


def ring(count: int) -> Graph:
    node = torch.arange(count)
    both = torch.cat([torch.stack([node, (node + 1) % count]), torch.stack([(node + 1) % count, node])], 1)
    return Graph.from_edge_index(both, count)


def hub(leaves: int) -> Graph:
    """All leaves are read by node 0."""
    leaf = torch.arange(1, leaves + 1)
    return Graph.from_edge_index(torch.stack([leaf, torch.zeros_like(leaf)]), leaves + 1)


def load_of(graph: Graph, owner: torch.Tensor, parts: int) -> PartLoad:
    return PartLoad.of(graph, owner, parts, WIDTHS)


def test_a_part_of_half_the_ring_becomes_a_third() -> None:
    graph = ring(300)
    owner = torch.repeat_interleave(torch.arange(3), torch.tensor([150, 75, 75]))
    assert load_of(graph, owner, 3).largest() > 1.4
    found = levelled(graph, owner, 3, WIDTHS)
    load = load_of(graph, found, 3)
    assert load.largest() <= LARGEST_PART
    assert bool((found[owner != 0] == owner[owner != 0]).all()), "only the largest part gives nodes"


def test_nodes_tied_to_another_part_leave_first() -> None:
    """Part 0 owns a piece of the ring amid part 1, which is the first to go."""
    graph = ring(240)
    owner = torch.repeat_interleave(torch.arange(2), torch.tensor([130, 110]))
    owner[180:190] = 0
    assert load_of(graph, owner, 2).halo_rows == (4, 4)
    found = levelled(graph, owner, 2, WIDTHS)
    load = load_of(graph, found, 2)
    assert load.largest() <= LARGEST_PART
    assert sum(load.halo_rows) <= 8


def test_a_good_cut_stays_as_it_is() -> None:
    owner = torch.repeat_interleave(torch.arange(2), torch.tensor([50, 50]))
    assert levelled(ring(100), owner, 2, WIDTHS) is owner


def test_the_least_largest_part_counted_by_hand() -> None:
    """A hub with 900 in-edges needs 900 rows wherever it is; no other node has edges."""
    graph, parts = hub(900), 8
    load = load_of(graph, torch.arange(901) * parts // 901, parts)
    node, halo = load.node_bytes, load.halo_bytes
    want = (node + 900 * halo + 900 * EDGE_BYTES) * parts / sum(load.memory())
    work = (1 / 901 + 1) * parts / 2
    assert least_largest(graph, load) == pytest.approx(max(want, work))
    assert goal(graph, load) == pytest.approx(LEEWAY * least_largest(graph, load))


@pytest.mark.parametrize("seed", range(3))
def test_no_cut_is_below_the_least_largest_part(seed: int) -> None:
    graph, parts = hub(60), 5
    owner = torch.randint(parts, (61,), generator=torch.Generator().manual_seed(seed))
    load = load_of(graph, owner, parts)
    assert load.largest() >= least_largest(graph, load)
    found = levelled(graph, owner, parts, WIDTHS)
    assert load_of(graph, found, parts).largest() <= load.largest()
