"""The archive format: what is written is read again, and damage is named."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from halowire.errors import InputError
from halowire.graph import Graph, load, write_npz
from halowire.graph.npz import read_meta, read_npz
from halowire.kernels import Csr
from tests.support.small_graphs import triangle


def assert_same(a: Graph, b: Graph) -> None:
    assert torch.equal(a.adj.indptr, b.adj.indptr)
    assert torch.equal(a.adj.indices, b.adj.indices)
    for key in ("y", "train_mask", "val_mask", "test_mask", "ids"):
        one, other = getattr(a, key), getattr(b, key)
        assert (one is None and other is None) or torch.equal(one, other), key
    assert a.num_classes == b.num_classes
    assert (a.adj.weight is None) == (b.adj.weight is None)
    assert torch.equal(a.adj.to_dense(), b.adj.to_dense())
    dense = [graph.x.to_dense() if graph.x is not None else torch.zeros(0) for graph in (a, b)]
    assert torch.equal(dense[0], dense[1])


def test_round_trip(tmp_path: Path) -> None:
    write_npz(triangle(), tmp_path / "triangle.npz", {"source": "a test"})
    graph = load(tmp_path / "triangle.npz")
    assert_same(graph, triangle())
    assert graph.name == "triangle"
    assert read_meta(tmp_path / "triangle.npz") == {"source": "a test"}
    assert [path.name for path in tmp_path.iterdir()] == ["triangle.npz"]


def test_round_trip_of_weights_ids_sparse_features_and_several_labels(tmp_path: Path) -> None:
    graph = Graph.from_edge_index(
        np.array([[4, 0, 1], [1, 3, 2]]),
        5,
        torch.diag(torch.tensor([1.0, 2.5, 0, 0, 1])).to_sparse_csr(),
        np.eye(5, 3),
        train_mask=np.array([1, 1, 0, 0, 0], dtype=bool),
        edge_weight=np.array([0.5, 1.5, 2.0]),
        ids=np.array([10, 20, 30, 50, 70]),
    )
    write_npz(graph, tmp_path / "g.npz")
    again = read_npz(tmp_path / "g.npz", "g")
    assert_same(graph, again)
    assert again.multi_label
    assert isinstance(again.x, Csr)
    assert read_meta(tmp_path / "g.npz") == {}


def test_more_classes_than_sixteen_bits_hold(tmp_path: Path) -> None:
    graph = Graph.from_edge_index(np.array([[0], [1]]), y=np.array([-1, 70000]))
    write_npz(graph, tmp_path / "g.npz")
    assert_same(graph, load(tmp_path / "g.npz"))


def save(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def test_reads_the_narrow_types_and_packed_masks(tmp_path: Path) -> None:
    mask = np.arange(11) < 4
    path = save(
        tmp_path / "g.npz",
        num_nodes=11,
        edge_index=np.array([[0, 1], [1, 10]], dtype=np.int32),
        x=np.ones((11, 3), dtype=np.float16),
        y=np.zeros(11, dtype=np.int16),
        train_mask=np.packbits(mask),
        test_mask=~mask,
        year=np.zeros(11),
        meta="{}",
    )
    graph = load(path)
    assert graph.train_mask is not None
    assert graph.train_mask.tolist() == mask.tolist()
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.dtype == torch.float32
    assert graph.val_mask is None


def test_unsorted_sparse_features_are_sorted(tmp_path: Path) -> None:
    path = save(
        tmp_path / "g.npz",
        num_nodes=2,
        edge_index=np.array([[0], [1]]),
        x_indptr=np.array([0, 2, 3]),
        x_indices=np.array([2, 0, 1]),
        x_data=np.array([7, 5, 6]),
        x_shape=np.array([2, 3]),
    )
    graph = load(path)
    assert isinstance(graph.x, Csr)
    assert graph.x.indices.tolist() == [0, 2, 1]
    assert graph.x.to_dense().tolist() == [[5, 0, 7], [0, 6, 0]]


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    write_npz(triangle(), path)
    whole = path.read_bytes()
    for size in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"g\.npz cannot be read as an \.npz archive .*cut off or damaged"):
            load(path)


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    write_npz(triangle(), path)
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("edge_index.npy").header_offset + 60
    data = bytearray(path.read_bytes())
    data[start : start + 20] = bytes(20)
    path.write_bytes(data)
    with pytest.raises(InputError, match="cut off or damaged"):
        load(path)


def test_pickled_objects_are_never_read(tmp_path: Path) -> None:
    path = save(tmp_path / "g.npz", edge_index=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="cannot be read"):
        load(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.eye(2)}, "has no array edge_index"),
        ({"num_nodes": np.arange(2)}, "num_nodes in g has shape"),
        ({"train_mask": np.zeros(2, dtype=np.uint8)}, "train_mask has shape"),
        ({"x_indptr": np.arange(3)}, "has x_indptr but not x_indices, x_data, x_shape"),
        (
            {"x_indptr": np.arange(3), "x_indices": [0], "x_data": [1], "x_shape": [2, 2]},
            "do not fit together",
        ),
        (
            {"x_indptr": np.arange(3), "x_indices": [0, 9], "x_data": [1, 1], "x_shape": [2, 2]},
            r"0\.\.1",
        ),
        (
            {"x_indptr": np.arange(3), "x_indices": [0, 1], "x_data": [1, 1], "x_shape": [2]},
            r"x_shape of g is \[2\], expected two whole numbers",
        ),
        (
            {"x_indptr": np.arange(3), "x_indices": [0, 1], "x_data": [1, 1], "x_shape": [2, -2]},
            r"x_shape of g is \[2, -2\], expected two whole numbers",
        ),
        (
            {"x_indptr": [[0, 1, 2]], "x_indices": [0, 1], "x_data": [1, 1], "x_shape": [2, 2]},
            r"x_indptr of g has shape \[1, 3\], expected one dimension",
        ),
        (
            {"x_indptr": np.arange(3), "x_indices": [0, 1], "x_data": [[1], [1]], "x_shape": [2, 2]},
            r"x_data of g has shape \[2, 1\], expected one dimension",
        ),
        ({"x": np.eye(2, dtype=complex), "edge_index": np.array([[0], [1]])}, "x has type complex128"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    edges = {} if "x" in arrays else {"num_nodes": 2, "edge_index": np.array([[0], [1]])}
    with pytest.raises(InputError, match=message):
        load(save(tmp_path / "g.npz", **(edges | arrays)))


@pytest.mark.parametrize("mask", [np.ones(2, dtype=bool), np.packbits([True, True])], ids=["plain", "packed"])
def test_labels_without_nodes_are_refused(tmp_path: Path, mask: np.ndarray[Any, Any]) -> None:
    path = save(tmp_path / "g.npz", edge_index=np.array([[0], [1]]), y=np.int64(3), train_mask=mask)
    with pytest.raises(InputError, match=r"y has shape \[\], expected \[N\]"):
        load(path)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "g.npz").open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(InputError, match="single array"):
        load(tmp_path / "g.npz")
