"""Data sets by name: read by PyG's classes from raw or processed files, never downloaded; what is missing is told."""

from __future__ import annotations

import gzip
import json
import pickle
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, InMemoryDataset

import halowire
from halowire.errors import InputError
from halowire.graph import dataset_name, is_dataset

NODES, TRAIN, TEST = 560, 12, 20
PLACES = {
    "amazon:Photo": "Photo", "amazon:computers": "Computers", "coauthor:CS": "CS", "coauthor:physics": "Physics",
    "planetoid:PubMed": "PubMed", "reddit": "Reddit", "flickr": "Flickr", "yelp": "Yelp",
}  # fmt: skip


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Whoever opens a connection fails."""

    def refuse(*_, **__):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def write_planetoid(folder: Path) -> dict[str, np.ndarray]:
    """The eight raw files, as Planetoid's authors pickled them: 500 nodes after the training ones validate."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    known = NODES - TEST
    x, y = rng.random((NODES, 4)).astype(np.float32), np.eye(3, dtype=np.int32)[rng.integers(0, 3, NODES)]
    graph = {node: [(node + step) % NODES for step in (1, 7, -1, -7)] for node in range(NODES)}
    parts = {"x": x[:TRAIN], "y": y[:TRAIN], "allx": x[:known], "ally": y[:known], "tx": x[known:], "ty": y[known:],
             "graph": graph}  # fmt: skip
    for name, value in parts.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(value))
    (folder / "ind.cora.test.index").write_text("".join(f"{node}\n" for node in range(known, NODES)))
    return {"x": x, "y": y.argmax(1)}


def write_npz(folder: Path, name: str, graph: halowire.Graph) -> None:
    """Amazon's and Coauthor's raw file: features and edges as sparse matrices, classes."""
    x, adjacency = sparse(graph)
    parts = {f"{kind}_{field}": getattr(matrix, field) for kind, matrix in (("attr", x), ("adj", adjacency))
             for field in ("data", "indices", "indptr", "shape")}  # fmt: skip
    np.savez(folder / name, labels=graph.y.numpy(), **parts)


def write_reddit(folder: Path, graph: halowire.Graph) -> None:
    kinds = graph.train_mask + 2 * graph.val_mask + 3 * graph.test_mask
    np.savez(folder / "reddit_data.npz", feature=graph.x.numpy(), label=graph.y.numpy(), node_types=kinds.numpy())
    sp.save_npz(folder / "reddit_graph.npz", sparse(graph)[1].tocoo())


def write_saint(folder: Path, graph: halowire.Graph) -> None:
    """Flickr's and Yelp's raw files, as GraphSAINT's authors made them."""
    adjacency = sparse(graph)[1]
    fields = {field: getattr(adjacency, field) for field in ("data", "indices", "indptr", "shape")}
    np.savez(folder / "adj_full.npz", **fields)
    np.save(folder / "feats.npy", graph.x.numpy())
    (folder / "class_map.json").write_text(
        json.dumps({str(node): label for node, label in enumerate(graph.y.tolist())})
    )
    masks = {"tr": graph.train_mask, "va": graph.val_mask, "te": graph.test_mask}
    roles = {name: mask.nonzero()[:, 0].tolist() for name, mask in masks.items()}
    (folder / "role.json").write_text(json.dumps(roles))


def sparse(graph: halowire.Graph) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features of 0 and 1, and edges, by source."""
    row, col = graph.edge_index().numpy()
    shape = (graph.num_nodes, graph.num_nodes)
    return sp.csr_matrix(graph.x.numpy()), sp.csr_matrix((np.ones(len(row), np.float32), (row, col)), shape)


RAW = {
    "amazon:Photo": ("Photo", lambda folder, graph: write_npz(folder, "amazon_electronics_photo.npz", graph)),
    "coauthor:Physics": ("Physics", lambda folder, graph: write_npz(folder, "ms_academic_phy.npz", graph)),
    "reddit": ("", write_reddit),
    "flickr": ("", write_saint),
    "yelp": ("", write_saint),
}


@pytest.mark.parametrize("spec", RAW)
def test_raw_files_are_enough(tmp_path, spec):
    graph = halowire.block_model(40, 160, 4, 3, seed=1)
    graph = replace(graph, x=(graph.x > 0).float())
    name, write = RAW[spec]
    folder = tmp_path / name / "raw"
    folder.mkdir(parents=True)
    write(folder, graph)
    found = halowire.load(spec, root=tmp_path)
    assert torch.equal(found.x, graph.x) and torch.equal(found.y, graph.y)
    assert edges(found) == edges(graph)
    if name == "":
        for mask in ("train_mask", "val_mask", "test_mask"):
            assert torch.equal(getattr(found, mask), getattr(graph, mask))
    assert (tmp_path / name / "processed" / "data.pt").exists(), "the next time is quicker"


def edges(graph: halowire.Graph) -> set[tuple[int, int]]:
    return set(map(tuple, graph.edge_index().t().tolist()))


def write_processed(folder: Path) -> Data:
    """What PyG's classes write after they have read their raw files."""
    folder.mkdir(parents=True)
    graph = halowire.block_model(40, 160, 4, 3, seed=1)
    data = Data(x=graph.x, edge_index=graph.edge_index(), y=graph.y)
    InMemoryDataset.save([data], str(folder / "data.pt"))
    return data


def test_planetoid_from_its_raw_files(tmp_path):
    want = write_planetoid(tmp_path / "Cora" / "raw")
    graph = halowire.load("planetoid:cora", root=tmp_path)
    assert graph.name == "Cora" and graph.num_nodes == NODES and graph.num_classes == 3
    assert torch.equal(graph.x, torch.from_numpy(want["x"])) and graph.y.tolist() == want["y"].tolist()
    counts = [int(mask.sum()) for mask in (graph.train_mask, graph.val_mask, graph.test_mask)]
    assert counts == [TRAIN, 500, TEST]
    pairs = set(map(tuple, graph.edge_index().t().tolist()))
    assert (0, 1) in pairs and (1, 0) in pairs and (0, 8) not in pairs
    again = halowire.load("planetoid:Cora", root=tmp_path)
    assert torch.equal(again.x, graph.x), "now from processed/"


@pytest.mark.parametrize("spec", PLACES)
@pytest.mark.parametrize("nested", [False, True])
def test_processed_files_are_enough(tmp_path, spec, nested):
    title = spec.partition(":")[0].capitalize()
    base = tmp_path / title if nested else tmp_path
    alone = ":" not in spec
    want = write_processed(base / ("" if alone else PLACES[spec]) / "processed")
    graph = halowire.load(spec, root=tmp_path)
    assert graph.name == PLACES[spec] and torch.equal(graph.y, want.y) and torch.equal(graph.x, want.x)


@pytest.mark.parametrize("spec", [*PLACES, "planetoid:Cora"])
def test_what_is_not_on_disk_is_told_and_nothing_is_made(tmp_path, spec):
    with pytest.raises(InputError, match="not on disk") as told:
        halowire.load(spec, root=tmp_path / "here")
    message = str(told.value)
    assert str(tmp_path / "here") in message and "raw" in message and "--graph.root" in message
    assert "\n" not in message and not (tmp_path / "here").exists()


def test_ogb_by_name(tmp_path):
    raw = tmp_path / "ogbn_tiny" / "raw"
    raw.mkdir(parents=True)
    with gzip.open(raw / "edge.csv.gz", "wt") as file:
        file.write("0,1\n1,2\n")
    graph = halowire.load("ogb:ogbn-tiny", root=tmp_path)
    assert graph.num_edges == 2 and graph.name == "ogbn_tiny"
    with pytest.raises(InputError, match="ogbn_other"):
        halowire.load("ogb:ogbn-other", root=tmp_path)


def test_damaged_files_are_told(tmp_path):
    folder = tmp_path / "Cora" / "processed"
    folder.mkdir(parents=True)
    (folder / "data.pt").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read"):
        halowire.load("planetoid:Cora", root=tmp_path)


@pytest.mark.parametrize("spec", ["planetoid:Coral", "planetoid", "reddit:all", "amazon:"])
def test_unknown_names_are_told(tmp_path, spec):
    with pytest.raises(InputError, match="names no data set"):
        halowire.load(spec, root=tmp_path)


def test_names():
    assert is_dataset("ogb:ogbn-arxiv") and is_dataset("Reddit") and not is_dataset("sbm:nodes=3,edges=4")
    assert not is_dataset("debian") and dataset_name("planetoid:Cora") == "Cora" and dataset_name("flickr") == "flickr"
    with pytest.raises(InputError, match="leave it out"):
        halowire.load("debian", root="data")


def test_training_by_name_with_a_split_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_processed(tmp_path / "data" / "Photo" / "processed")
    settings = {"epochs": 1, "model.hidden": 4, "graph.split": "random"}
    done = halowire.train("amazon:Photo", out="run", settings=settings, quiet=True, table=False)
    assert done.summary["graph"] == "Photo"
    with pytest.raises(InputError, match="has no train_mask"):
        halowire.train("amazon:Photo", out="other", settings={"epochs": 1}, quiet=True)
