"""Properties of the graph type over arbitrary edges: order does not matter, derived graphs equal the dense formula."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.graph import Graph, block_model, mean, rmat, symmetric, symmetric_degree


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any small directed graph, with and without weights; self loops, duplicates and isolated nodes included."""
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node, st.sampled_from([0.0, 0.5, 1.0, 2.0])), max_size=40))
    edge_index = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
    weight = np.array([edge[2] for edge in edges], dtype=np.float32) if draw(st.booleans()) else None
    return Graph.from_edge_index(edge_index, num_nodes, x=np.eye(num_nodes), edge_weight=weight)


@settings(deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_the_edges_does_not_matter(graph: Graph, random: object) -> None:
    edge_index, weight = graph.edge_index(), graph.adj.weight
    order = list(range(graph.num_edges))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = Graph.from_edge_index(
        edge_index[:, order], graph.num_nodes, edge_weight=None if weight is None else weight[order]
    )
    assert torch.equal(shuffled.adj.indptr, graph.adj.indptr)
    assert torch.equal(shuffled.adj.indices, graph.adj.indices)
    assert torch.equal(shuffled.adj.to_dense(), graph.adj.to_dense())


@settings(deadline=None)
@given(graphs())
def test_undirected_is_symmetric_simple_and_stable(graph: Graph) -> None:
    result = graph.undirected()
    pattern = (graph.adj.with_weight(None).to_dense() > 0) | (graph.adj.with_weight(None).to_dense() > 0).T
    assert torch.equal(result.adj.with_weight(None).to_dense(), pattern.float())
    dense = result.adj.to_dense()
    assert torch.equal(dense, dense.T)
    assert torch.equal(result.undirected().adj.to_dense(), dense)


@settings(deadline=None)
@given(graphs(), st.data())
def test_subgraph_is_the_submatrix(graph: Graph, data: st.DataObject) -> None:
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=graph.num_nodes, max_size=graph.num_nodes)))
    part = graph.subgraph(mask)
    assert torch.equal(part.adj.to_dense(), graph.adj.to_dense()[mask][:, mask])
    assert part.ids.tolist() == mask.nonzero().flatten().tolist()
    assert isinstance(part.x, torch.Tensor)
    assert torch.equal(part.x, torch.eye(graph.num_nodes)[mask])


@settings(deadline=None)
@given(graphs())
def test_symmetric_equals_the_dense_formula(graph: Graph) -> None:
    row, col = graph.adj.row_index(), graph.adj.indices.long()
    weight = torch.ones(graph.num_edges) if graph.adj.weight is None else graph.adj.weight
    dense = torch.zeros(graph.num_nodes, graph.num_nodes)
    loop = torch.ones(graph.num_nodes)
    for i, j, w in zip(row.tolist(), col.tolist(), weight.tolist(), strict=True):
        if i == j:
            loop[i] = w
        else:
            dense[i, j] += w
    dense += loop.diag()
    degree = dense.sum(1)
    scale = torch.where(degree > 0, degree**-0.5, 0)
    torch.testing.assert_close(symmetric_degree(graph.adj), degree)
    torch.testing.assert_close(symmetric(graph.adj).to_dense(), scale[:, None] * dense * scale)


@settings(deadline=None)
@given(graphs())
def test_mean_rows_sum_to_one_or_zero(graph: Graph) -> None:
    dense = graph.adj.to_dense()
    sums = dense.sum(1, keepdim=True)
    result = mean(graph.adj)
    assert torch.equal(result.indices, graph.adj.indices)
    torch.testing.assert_close(result.to_dense(), torch.where(sums > 0, dense / sums, 0))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([rmat, block_model]), st.integers(4, 200), st.floats(0, 1), st.integers(0, 2**32))
def test_synthetic_graphs_are_simple_and_of_the_size_asked(
    make: object, num_nodes: int, density: float, seed: int
) -> None:
    num_edges = int(density * min(num_nodes * (num_nodes - 1) // 4, 4 * num_nodes))
    graph: Graph = make(num_nodes, num_edges, 2, 3, seed)  # type: ignore[operator]
    source, target = graph.edge_index()
    assert graph.num_edges == num_edges // 2 * 2
    assert not bool((source == target).any())
    assert len({*zip(source.tolist(), target.tolist(), strict=True)}) == graph.num_edges
