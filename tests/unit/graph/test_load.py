"""The one door: every kind of graph is found, everything else is refused with what is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from halowire.errors import InputError
from halowire.graph import load
from tests.support.small_graphs import triangle


def test_a_graph_goes_through_and_is_checked() -> None:
    graph = triangle()
    assert load(graph) is graph
    assert load(graph, undirected=True).num_edges == 7
    with pytest.raises(InputError, match="train_mask is empty"):
        load(graph.with_split(torch.zeros(3, dtype=torch.bool), None, None))


def test_synthetic_descriptions() -> None:
    graph = load("rmat:nodes=100,edges=400,features=5,classes=3,seed=7")
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (100, 400, 5, 3)
    graph = load("sbm: nodes=60, edges=300, features=4, classes=3, homophily=0.5, noise=1, multi_label=1")
    assert graph.multi_label


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rmat:", "does not say how many nodes and edges"),
        ("rmat:nodes=100", "does not say how many nodes and edges, expected for example rmat:"),
        ("rmat:nodes=100,edges=many", "'edges=many' .* is not a number"),
        ("rmat:nodes=100,edges=100,homophily=1", "'homophily=1' .* is not known, expected key=value with a key of"),
        ("sbm:nodes=100,edges", "'edges' .* is not known"),
        ("sbm:nodes=100,edges=10,multi_label=yes", "is not a number"),
        ("rmat:nodes=2,edges=2", "expected at least 4"),
        ("rmat:nodes=10,edges=10,classes=1", "1 classes"),
        ("rmat:nodes=10,edges=-1", "-1 edges"),
        ("rmat:nodes=10,edges=1000", r"1000 edges among 10 nodes .* at most 44"),
        ("sbm:nodes=10,edges=10,homophily=2", "homophily 2.0"),
        ("sbm:nodes=100,edges=200,seed=-1", r"seed is -1, expected 0 to 2\*\*63 - 1"),
        ("rmat:nodes=100,edges=200,seed=-1", "seed is -1"),
        (f"rmat:nodes=100,edges=200,seed={2**63}", f"seed is {2**63}"),
        (f"sbm:nodes=100,edges=200,seed={2**70}", f"seed is {2**70}"),
        ("debain", "'debain' is neither a file nor a known graph, expected the built-in graph 'debian', a file"),
        ("missing.npz", r"'missing\.npz' is neither a file nor"),
    ],
)
def test_unknown_descriptions_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(spec)
    assert "\n" not in str(caught.value)


def test_other_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.parquet").write_text("")
    with pytest.raises(InputError, match="of no known kind"):
        load(tmp_path / "graph.parquet")
    with pytest.raises(InputError, match=r"has no edge\.csv\.gz"):
        load(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="it holds shards"):
        load(tmp_path)


def test_companion_files_belong_to_edge_lists(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="labels belong to an edge list"):
        load("debian", labels=tmp_path / "y.csv")
