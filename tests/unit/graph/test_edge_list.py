"""Edge lists: every way of writing them gives the same graph, and mistakes are named."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from halowire.errors import InputError
from halowire.graph import load

COMMA = "1000,7\n7,30\n30,1000\n"


def write(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.csv", COMMA),
        ("g.csv", "source,target\n" + COMMA),
        ("g.csv", "# made by hand\n\nsource,target\n" + COMMA),
        ("g.csv", "# made by hand\n" + COMMA + "# the end\n\n"),
        ("g.csv", COMMA.replace("\n", "\r\n")),
        ("g.csv", COMMA.replace(",", " , ")),
        ("g.csv", COMMA.replace(",", ";")),
        ("g.csv.gz", COMMA),
        ("g.tsv", "from\tto\n" + COMMA.replace(",", "\t")),
        ("g.tsv.gz", COMMA.replace(",", "\t")),
        ("g.txt", COMMA.replace(",", "  ")),
        ("g.txt.gz", "# nodes edges\n" + COMMA.replace(",", " ")),
        ("my.graph.csv", COMMA),
        ("g.csv", "\ufeff" + COMMA),
        ("g.csv.gz", "\ufeff" + COMMA),
        ("g.csv", "\ufeffsource,target\n" + COMMA),
        ("g.csv", "\ufeff# made by hand\n" + COMMA),
        ("g.tsv", "\ufeff" + COMMA.replace(",", "\t")),
    ],
)
def test_all_ways_of_writing_give_the_same_graph(tmp_path: Path, name: str, text: str) -> None:
    graph = load(write(tmp_path / name, text))
    assert graph.ids.tolist() == [7, 30, 1000]
    assert graph.edge_index().tolist() == [[2, 0, 1], [0, 1, 2]]
    assert graph.adj.weight is None


def test_a_third_column_is_the_weight(tmp_path: Path) -> None:
    graph = load(write(tmp_path / "g.csv", "source,target,weight\n0,1,0.5\n1,0,2\n"))
    assert graph.adj.to_dense().tolist() == [[0, 2], [0.5, 0]]


def test_undirected(tmp_path: Path) -> None:
    graph = load(write(tmp_path / "g.csv", "0,1\n1,0\n1,2\n"), undirected=True)
    assert graph.adj.to_dense().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_one_line_is_a_graph(tmp_path: Path) -> None:
    assert load(write(tmp_path / "g.csv", "5,5")).num_nodes == 1


def test_features_and_labels_come_from_their_own_files(tmp_path: Path) -> None:
    graph = load(
        write(tmp_path / "g.csv", COMMA),
        features=write(tmp_path / "x.csv", "id,a,b\n1000,1,2\n7,3,4\n30,5,6.5\n9,0,0\n"),
        labels=str(write(tmp_path / "y.csv", "id,class,part\n7,1,train\n30,0,val\n1000,2,test\n")),
    )
    assert graph.ids.tolist() == [7, 9, 30, 1000]
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.tolist() == [[3, 4], [0, 0], [5, 6.5], [1, 2]]
    assert graph.y is not None
    assert graph.y.tolist() == [1, -1, 0, 2]
    assert graph.num_classes == 3
    assert graph.test_mask is not None
    assert graph.test_mask.tolist() == [False, False, False, True]


def test_a_byte_order_mark_hides_no_row_of_features_or_labels(tmp_path: Path) -> None:
    graph = load(
        write(tmp_path / "g.csv", COMMA),
        features=write(tmp_path / "x.csv", "\ufeff7,3\n30,5\n1000,1\n"),
        labels=write(tmp_path / "y.csv", "\ufeff7,1,train\n30,0,val\n1000,2,test\n"),
    )
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.tolist() == [[3], [5], [1]]
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, 2]


def test_features_as_npy_and_labels_without_parts(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    graph = load(
        write(tmp_path / "g.csv", COMMA),
        features=tmp_path / "x.npy",
        labels=write(tmp_path / "y.csv", "7,1\n30,0\n"),
    )
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, -1]
    assert graph.train_mask is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rows"),
        ("# nothing\n\n", "holds no rows"),
        ("source,target\n", "a header but no rows"),
        ("1\n2\n", "has 1 columns, expected source,target"),
        ("1,2,3,4\n", "has 4 columns, expected source,target"),
        ("1,2\n3\n", "cannot be read"),
        ("1,2\n3,4,5\n", "cannot be read"),
        ("1,2\n3,x\n", "cannot be read: could not convert string 'x'"),
        ("1,2\n3,4.5\n", "cannot be read"),
        ("1,2\n3,99999999999999999999\n", "cannot be read"),
        ("1,-2\n", "hold the node id -2, expected ids >= 0"),
        ("1,2,nan\n", "negative or not finite"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(write(tmp_path / "g.csv", text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("features", "7,1\n30,1\n", r"features for 2 of 3 nodes \(not for 1000\)"),
        ("features", "7\n30\n1000\n", "has 1 column, expected id,value"),
        ("features", "7,1\n7,1\n30,1\n1000,1\n", "2 lines for node 7"),
        ("features", "7,1\n30,nan\n1000,1\n", "NaN or infinite .*node 30, column 0"),
        ("labels", "7,0\n7,1\n", "2 lines for node 7"),
        ("labels", "7,0,learn\n", "puts node 7 into 'learn'"),
        ("labels", "7\n", "has 1 columns, expected id,class"),
        ("labels", "7,-5\n", "label -5 of node 7"),
    ],
)
def test_mistakes_in_companion_files_are_named(tmp_path: Path, kind: str, text: str, message: str) -> None:
    companion = write(tmp_path / "other.csv", text)
    with pytest.raises(InputError, match=message):
        load(write(tmp_path / "g.csv", COMMA), **{kind: companion})


def test_companion_files_must_exist(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", COMMA)
    with pytest.raises(InputError, match="there is no file"):
        load(path, labels=tmp_path / "missing.csv")
    with pytest.raises(InputError, match="npy"):
        load(path, features=tmp_path / "missing.npy")


def test_a_gzip_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"{i},{i * i}\n" for i in range(5000)).encode())
    for data in (whole[: len(whole) // 2], whole[:-4], b"1,2\n3,4\n", whole[:5]):
        (tmp_path / "g.csv.gz").write_bytes(data)
        with pytest.raises(InputError, match=r"g\.csv\.gz is cut off or not a gzip file"):
            load(tmp_path / "g.csv.gz")


def test_binary_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_bytes(bytes(range(256)))
    with pytest.raises(InputError):
        load(tmp_path / "g.csv")
