"""The hypergraph partitioner: its objective is the number of halo rows, and it finds fewer of them than METIS."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from halowire.errors import InputError
from halowire.graph import Graph
from halowire.graph.synthetic import block_model
from halowire.partitioning import hypergraph, measure, partition
from halowire.partitioning.hypergraph import readers
from tests.support.awkward_graphs import awkward


def test_a_net_is_a_node_and_its_readers() -> None:
    # 0 is read by 1 (twice) and by 2; 1 is read by itself alone; 2 by 0; nobody reads 3.
    edges = torch.tensor([[0, 0, 0, 1, 2], [1, 1, 2, 1, 0]])
    nets = readers(Graph.from_edge_index(edges, 4).adj)
    assert nets.indptr.tolist() == [0, 3, 5] and nets.indices.tolist() == [0, 1, 2, 0, 2]


def test_the_objective_is_the_number_of_halo_rows() -> None:
    graph = awkward(60, 400)
    owners = partition(graph, 3, "random")
    nets = readers(graph.adj)
    spread = [owners.owner[net.long()].unique().numel() - 1 for net in nets.indices.split(nets.indptr.diff().tolist())]
    assert sum(spread) == sum(measure(graph, owners).halo_rows)


def test_fewer_rows_travel_than_with_metis() -> None:
    graph = block_model(600, 3600, 4, 12, seed=3)
    rows = {name: sum(measure(graph, partition(graph, 4, name)).halo_rows) for name in ("metis", "hypergraph")}
    assert rows["hypergraph"] < rows["metis"]


def test_a_failure_of_the_partitioner_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise ValueError('no room')")
    monkeypatch.setattr(hypergraph, "SCRIPT", script)
    with pytest.raises(InputError, match=r"could not partition the graph \(ValueError: no room\): use method 'metis'"):
        partition(awkward(), 2, "hypergraph")
