"""OGB's raw folder layout."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from halowire.errors import InputError
from halowire.graph import load


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "ogbn_tiny"
    write(root / "raw" / "edge.csv.gz", "0,1\n2,1\n3,0\n")
    write(root / "raw" / "node-feat.csv.gz", "0.5,1\n1,0\n-2,1e-3\n0,0\n")
    write(root / "raw" / "node-label.csv.gz", "1\n0\n2\n2\n")
    write(root / "raw" / "num-node-list.csv.gz", "4\n")
    write(root / "raw" / "num-edge-list.csv.gz", "3\n")
    for part, node in (("train", "0\n1\n"), ("valid", "2\n"), ("test", "3\n")):
        write(root / "split" / "time" / f"{part}.csv.gz", node)
    return root


@pytest.mark.parametrize("inside", ["", "raw"])
def test_reads_all_files(folder: Path, inside: str) -> None:
    graph = load(folder / inside)
    assert graph.name == "ogbn_tiny"
    assert graph.edge_index().tolist() == [[3, 0, 2], [0, 1, 1]]
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x[2].tolist() == pytest.approx([-2, 1e-3])
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, 2, 2]
    masks = [graph.train_mask, graph.val_mask, graph.test_mask]
    assert [mask.nonzero().flatten().tolist() for mask in masks if mask is not None] == [[0, 1], [2], [3]]
    assert load(folder, undirected=True).num_edges == 6


def test_an_empty_test_part_is_refused(folder: Path) -> None:
    write(folder / "split" / "time" / "test.csv.gz", "")
    with pytest.raises(InputError, match="test_mask is empty"):
        load(folder)


def test_nan_labels_are_unlabelled_and_several_columns_are_labels(folder: Path) -> None:
    write(folder / "split" / "time" / "test.csv.gz", "1\n")
    write(folder / "split" / "time" / "train.csv.gz", "0\n")
    write(folder / "raw" / "node-label.csv.gz", "1\n0\n2\nnan\n")
    graph = load(folder)
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, 2, -1]
    write(folder / "raw" / "node-label.csv.gz", "1,0\n0,1\n1,1\n0,0\n")
    assert load(folder).multi_label


def test_only_edges_are_required(tmp_path: Path) -> None:
    write(tmp_path / "edge.csv.gz", "0,1\n5,1\n")
    graph = load(tmp_path)
    assert (graph.num_nodes, graph.x, graph.y) == (6, None, None)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("raw/edge.csv.gz", "0,1,2\n", "not two columns"),
        ("raw/edge.csv.gz", "0,9\n", r"run from 0 to 9, expected 0\.\.3"),
        ("raw/node-feat.csv.gz", "1\n2\n", "x has 2 rows, expected 4"),
        ("raw/node-feat.csv.gz", "1,2\n3\n", "cannot be read"),
        ("raw/num-node-list.csv.gz", "2\n2\n", "holds 2 graphs"),
        ("split/time/train.csv.gz", "7\n", r"names node 7, expected 0\.\.3"),
        ("split/time/train.csv.gz", "2\n", "share 1 nodes"),
        ("split/other/train.csv.gz", "0\n", "expected exactly one"),
    ],
)
def test_mistakes_are_named(folder: Path, file: str, text: str, message: str) -> None:
    write(folder / file, text)
    with pytest.raises(InputError, match=message):
        load(folder)


def test_missing_and_cut_off_files_are_named(folder: Path) -> None:
    (folder / "split" / "time" / "valid.csv.gz").unlink()
    with pytest.raises(InputError, match=r"there is no file .*valid\.csv\.gz"):
        load(folder)
    path = folder / "raw" / "edge.csv.gz"
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(InputError, match=r"edge\.csv\.gz is cut off"):
        load(folder)
