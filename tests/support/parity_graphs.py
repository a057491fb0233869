"""Small graphs of every kind on which many workers are held against one process, and how they are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.graph import Graph, block_model
from halowire.kernels import Csr
from halowire.partitioning import Shard, cut, partition

NODES, EDGES, FEATURES, CLASSES = 300, 2400, 12, 5
LANES = ("lane", "directed lane", "islands")
ZEROS = ("stored zeros", "edges of weight 0")


def node_tensors(graph: Graph) -> dict[str, Any]:
    """What ``graph`` knows of its nodes, as arguments of ``Graph.from_edge_index``."""
    return {name: getattr(graph, name) for name in ("x", "y", "train_mask", "val_mask", "test_mask", "num_classes")}


def lane_edges(nodes: int) -> Tensor:
    """From every node to the next one, the second next and the fifth: neighbours have nearby numbers."""
    numbers = torch.arange(nodes)
    return torch.cat([torch.stack([numbers[:-step], numbers[step:]]) for step in (1, 2, 5)], 1)


def make_lane(case: str) -> Graph:
    """Neighbours have nearby numbers, so that ranges of nodes have few boundary rows and a large interior.

    In ``islands`` the last third has no edge to the others: of three workers, the last has nothing to send or receive.
    """
    edges = lane_edges(NODES)
    if case == "islands":
        edges = edges[:, (edges >= 2 * NODES // 3).sum(0) != 1]
    if case != "directed lane":
        edges = torch.cat([edges, edges.flip(0)], 1)
    graph = block_model(NODES, EDGES, FEATURES, CLASSES, seed=3)
    return Graph.from_edge_index(edges, NODES, **node_tensors(graph), name=case)


def make_graph(case: str) -> Graph:
    """``plain``, ``multi-label``, ``sparse`` features, ``words`` (zeros and ones), or one of ``LANES``.

    In ``half sparse`` the first half of the nodes has features so full that a worker makes them dense.
    Also ``directed`` and ``directed-weighted``, and those of `make_zeros`.
    """
    if case in LANES:
        return make_lane(case)
    if case in ZEROS:
        return make_zeros(case)
    graph = block_model(NODES, EDGES, FEATURES, CLASSES, seed=3, multi_label=case == "multi-label")
    nodes = node_tensors(graph)
    if case in ("sparse", "half sparse"):
        # Few enough to stay sparse: fuller rows are multiplied as a dense matrix.
        kept = graph.x > graph.x.quantile(0.85)
        kept[: NODES // 2] |= graph.x[: NODES // 2] > (0 if case == "half sparse" else torch.inf)
        rows, cols = kept.nonzero(as_tuple=True)
        nodes["x"] = Csr.from_edges(rows, cols, NODES, FEATURES, graph.x[rows, cols])
        graph = Graph.from_edge_index(graph.edge_index(), NODES, **nodes, name=case)
    if case == "words":
        # Dense, but as rows far smaller than as partial sums, which are fractions.
        graph = Graph.from_edge_index(graph.edge_index(), NODES, **nodes | {"x": (graph.x > 0).float()}, name=case)
    if case in ("directed-weighted", "directed"):
        kept = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1)) < 0.6
        edge_index = graph.edge_index()[:, kept]
        edge_index = torch.cat([edge_index, torch.tensor([[0, 5, 7, 7], [0, 5, 8, 8]])], 1)  # self loops, duplicates
        weight = torch.rand(edge_index.shape[1], generator=torch.Generator().manual_seed(2)) + 0.1
        nodes["edge_weight"] = weight if case == "directed-weighted" else None
        nodes["ids"] = torch.arange(NODES) * 7 + 1_000_000_007
        graph = Graph.from_edge_index(edge_index, NODES, **nodes, name="directed")
    return graph


def make_zeros(case: str) -> Graph:
    """Sparse ones, and zeros that are stored beside them; or so in the sums of features over edges, of which one each
    has weight 1 and the others 0.
    """
    graph = block_model(NODES, EDGES, FEATURES, CLASSES, seed=3)
    edges, values = graph.edge_index(), graph.x
    kept = values > values.quantile(0.9)
    stored = kept | (values < values.quantile(0.1)) if case == "stored zeros" else kept
    row, column = stored.nonzero(as_tuple=True)
    nodes = node_tensors(graph)
    nodes["x"] = Csr.from_edges(row, column, NODES, FEATURES, kept[row, column].float())
    if case == "edges of weight 0":
        weight = torch.ones(edges.shape[1])
        weight[1:] = (edges[1, 1:] != edges[1, :-1]).float()
        nodes["edge_weight"] = weight
    return Graph.from_edge_index(edges, NODES, **nodes, name=case)


def cut_graph(graph: Graph, parts: int, method: str = "random") -> Sequence[Shard]:
    """The shards of ``graph`` that the workers and the references agree on."""
    return cut(graph, partition(graph, parts, method=method, seed=4))
