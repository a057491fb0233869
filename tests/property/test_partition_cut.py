"""Whatever the graph and the owners: the shards together are the graph, and peers agree on what they exchange."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.graph import Graph, mean, symmetric
from halowire.partitioning import Partition, Shard, cut, partition
from halowire.partitioning.partition import METHODS

QUICK = [name for name in METHODS if name != "hypergraph"]
"""The partitioners without the one that starts a process; tests/unit/partitioning has that one."""


@st.composite
def cut_graphs(draw: st.DrawFn) -> tuple[Graph, Partition, list[Shard]]:
    """A directed multigraph with self loops and isolated nodes, any owners (parts may be empty), and its shards."""
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=40))
    weight = draw(st.none() | st.lists(st.floats(0, 2, width=16), min_size=len(edges), max_size=len(edges)))
    parts = draw(st.integers(1, 5))
    owner = draw(st.lists(st.integers(0, parts - 1), min_size=num_nodes, max_size=num_nodes))
    ids = draw(st.permutations(range(100, 100 + num_nodes)))
    graph = Graph.from_edge_index(
        torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T,
        num_nodes,
        x=torch.arange(num_nodes * 2.0).reshape(num_nodes, 2),
        edge_weight=None if weight is None else torch.tensor(weight, dtype=torch.float32),
        ids=torch.tensor(ids),
    )
    owners = Partition(torch.tensor(owner), parts)
    return graph, owners, cut(graph, owners)


def graph_rows(graph: Graph, ids: torch.Tensor) -> torch.Tensor:
    """Rows of the graph that have these original ids."""
    where = {int(node): row for row, node in enumerate(graph.ids)}
    return torch.tensor([where[int(node)] for node in ids], dtype=torch.int64)


@settings(deadline=None, max_examples=150)
@given(cut_graphs())
def test_the_union_of_the_shards_is_the_graph(case: tuple[Graph, Partition, list[Shard]]) -> None:
    graph, owners, shards = case
    assert sorted(torch.cat([shard.rows for shard in shards]).tolist()) == list(range(graph.num_nodes))
    found = []
    for shard in shards:
        assert bool((owners.owner[shard.rows] == shard.rank).all())
        assert torch.equal(graph.ids[shard.rows], shard.ids)
        for matrix, sources in ((shard.inner, shard.rows), (shard.halo, graph_rows(graph, shard.halo_ids))):
            weight = torch.ones(matrix.nnz) if matrix.weight is None else matrix.weight
            edge = (sources[matrix.indices.long()], shard.rows[matrix.row_index().long()], weight)
            found += list(zip(*(values.tolist() for values in edge), strict=True))
    weight = torch.ones(graph.num_edges) if graph.adj.weight is None else graph.adj.weight
    source, target = graph.edge_index().tolist()
    assert sorted(found) == sorted(zip(source, target, weight.tolist(), strict=True))
    cut_edges = sum(int(owners.owner[a] != owners.owner[b]) for a, b in zip(source, target, strict=True))
    assert sum(shard.halo.nnz for shard in shards) == cut_edges


@settings(deadline=None, max_examples=150)
@given(cut_graphs())
def test_peers_agree_on_what_is_sent(case: tuple[Graph, Partition, list[Shard]]) -> None:
    graph, owners, shards = case
    sent = [list(torch.split(shard.ids[shard.send_index], list(shard.send_counts))) for shard in shards]
    for shard in shards:
        assert shard.send_counts[shard.rank] == shard.recv_counts[shard.rank] == 0
        received = torch.cat([sent[peer][shard.rank] for peer in range(owners.num_parts)])
        assert torch.equal(received, shard.halo_ids)
        assert tuple(shards[peer].send_counts[shard.rank] for peer in range(owners.num_parts)) == shard.recv_counts
        rows = graph_rows(graph, shard.halo_ids)
        order = owners.owner[rows] * graph.num_nodes + rows
        assert bool((order.diff() > 0).all())
        assert bool((torch.bincount(shard.halo.indices.long(), minlength=shard.num_halo) > 0).all())


@settings(deadline=None, max_examples=100)
@given(cut_graphs())
def test_boundary_rows_come_first(case: tuple[Graph, Partition, list[Shard]]) -> None:
    _, _, shards = case
    for shard in shards:
        assert sorted(set(shard.send_index.tolist())) == list(range(shard.num_boundary))
        for rows in (shard.rows[: shard.num_boundary], shard.rows[shard.num_boundary :]):
            assert bool((rows.diff() > 0).all())
        for matrix in (shard.inner, shard.halo):
            same_row = matrix.row_index().diff() == 0
            assert bool((matrix.indices.diff()[same_row] >= 0).all())


@settings(deadline=None, max_examples=150)
@given(cut_graphs())
def test_normalised_shards_are_rows_of_the_normalised_graph(case: tuple[Graph, Partition, list[Shard]]) -> None:
    graph, _, shards = case
    for whole, name in ((symmetric(graph.adj), "symmetric"), (mean(graph.adj), "mean")):
        expected = whole.to_dense()
        for shard in shards:
            inner, halo = getattr(shard, name)()
            columns = torch.cat([shard.rows, graph_rows(graph, shard.halo_ids)])
            dense = torch.zeros(shard.num_owned, graph.num_nodes)
            dense[:, columns] = torch.cat([inner.to_dense(), halo.to_dense()], 1)
            torch.testing.assert_close(dense, expected[shard.rows], rtol=1e-6, atol=1e-7)


@settings(deadline=None, max_examples=100)
@given(cut_graphs(), st.integers(1, 12), st.sampled_from(QUICK), st.integers(0, 2**33))
def test_partitioners_fill_every_part(
    case: tuple[Graph, Partition, list[Shard]], parts: int, method: str, seed: int
) -> None:
    graph, _, _ = case
    parts = min(parts, graph.num_nodes)
    made, again = (partition(graph, parts, method, seed) for _ in range(2))
    assert int(made.sizes().min()) > 0 and int(made.sizes().sum()) == graph.num_nodes
    assert torch.equal(made.owner, again.owner)
