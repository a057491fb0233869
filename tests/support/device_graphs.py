"""A small graph with what every kind of task learns, and one worker's part of it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from halowire.graph import Graph, block_model, split_links
from halowire.kernels import Csr
from halowire.partitioning import Shard, cut, cut_links, partition, read_shard, write_shards
from halowire.training import Config, LinkTask, mesh_of
from halowire.wire import Transport

KINDS = ("classes", "labels", "values", "links", "words", "inductive")
NEGATIVES = 20


def graph_of(kind: str) -> Graph:
    """A graph whose nodes have ``classes``, several ``labels``, ``values``, or classes and sparse ``words``."""
    graph = block_model(200, 1600, 12, 5, seed=3)
    assert graph.y is not None and isinstance(graph.x, torch.Tensor)
    if kind == "labels":
        return replace(graph, y=torch.nn.functional.one_hot(graph.y, 5).float().roll(1, 0))
    if kind == "values":
        return replace(graph, y=graph.x[:, :2] * 2 - graph.x[:, 2:4], num_classes=2, regression=True)
    if kind == "words":
        drawn = torch.rand(200, 40, generator=torch.Generator().manual_seed(1)) < 0.1
        words = drawn.nonzero()
        return replace(graph, x=Csr.from_edges(words[:, 0], words[:, 1], 200, 40))
    return graph


def trained_part(kind: str, config: Config, transport: Transport, whole: Shard) -> Shard:
    """What this worker trains on: ``whole``, without the cut edges, or where ``kind`` is ``inductive`` the subgraph of
    the training nodes."""
    if kind != "inductive":
        return whole.isolated() if config.freshness.mode == "never" else whole
    graph, mesh = graph_of(kind), mesh_of(config, transport.size)
    parts = partition(graph, mesh.parts, method="random", seed=4)
    with tempfile.TemporaryDirectory() as folder:
        shards = write_shards(graph, parts, Path(folder, "shards"), inductive=True)
        return read_shard(shards, mesh.place(transport.rank)[1], train=True)


def part_of(kind: str, config: Config, transport: Transport, device: torch.device) -> tuple[Shard, LinkTask | None]:
    """This worker's shard of the graph and, where ``kind`` is ``links``, the task on its pairs."""
    graph, mesh = graph_of(kind), mesh_of(config, transport.size)
    parts = partition(graph, mesh.parts, method="random", seed=4)
    if kind != "links":
        return cut(graph, parts)[mesh.place(transport.rank)[1]], None
    edges = graph.edge_index()
    split = split_links(edges, graph.num_nodes, 0.1, 0.1, NEGATIVES, seed=5)
    kept = Graph.from_edge_index(edges[:, split.message], graph.num_nodes, graph.x)
    shards = cut(kept, parts)
    place = torch.empty(graph.num_nodes, dtype=torch.int32)
    for shard in shards:
        place[shard.rows] = torch.arange(shard.num_owned, dtype=torch.int32)
    links = cut_links(split, parts.owner.int(), place, transport.rank)
    shard = shards[transport.rank]
    return shard, LinkTask(links, shard, config, transport, device)
