"""The file for KaMinPar, read back by KaMinPar itself."""

from __future__ import annotations

from pathlib import Path

import kaminpar
import numpy as np

from halowire.partitioning.kaminpar_file import write_parhip
from halowire.partitioning.simple_graph import simple_undirected
from tests.support.awkward_graphs import awkward


def test_kaminpar_reads_the_graph_that_was_written(tmp_path: Path) -> None:
    graph = simple_undirected(awkward(40, 200).adj)
    weight = np.arange(1, 41)
    write_parhip(tmp_path / "graph", graph, weight)
    read = kaminpar.load_graph(str(tmp_path / "graph"), kaminpar.GraphFileFormat.PARHIP)
    assert (read.n(), read.m()) == (40, graph.nnz)
    for node in range(40):
        neighbours = graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()
        assert sorted(next(iter(pair)) for pair in read.neighbors(node)) == neighbours
        assert read.node_weight(node) == weight[node]
