"""Graphs as one ``.npz`` archive of plain arrays, read and written without pickles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.files import written_whole
from halowire.graph.archive import read_archive
from halowire.graph.graph import Graph
from halowire.graph.tensors import sparse_features, to_indices, to_labels, to_tensor, to_values
from halowire.kernels import Csr

Arrays = Mapping[str, np.ndarray[Any, Any]]
EDGES = ("edge_index", "edge_weight")
MASKS = ("train_mask", "val_mask", "test_mask")


def read_npz(file: Path | IO[bytes], name: str, regression: bool = False) -> Graph:
    """Read a graph; with ``regression`` its ``y`` holds values instead of classes.

    Keys: ``num_nodes``; ``edge_index`` ``[2, E]`` (source, target); optional ``edge_weight`` ``[E]``; ``x`` ``[N, F]``,
    or ``x_indptr``, ``x_indices``, ``x_data``, ``x_shape`` (sparse rows); ``y`` ``[N]`` (-1 = unlabelled) or 0/1
    ``[N, C]``, or any values where ``regression`` is 1; ``train_mask``, ``val_mask``, ``test_mask``, boolean or
    ``np.packbits`` of N booleans; ``ids`` ``[N]``; ``num_classes``; other tensors of the edges, ``[E, ...]``, under
    names that begin with ``edge_``. Other keys are ignored.
    """
    wanted = {"num_nodes", "edge_index", "edge_weight", "x", "y", "ids", "num_classes", "regression"}
    wanted |= {f"x_{part}" for part in ("indptr", "indices", "data", "shape")}
    wanted |= {*MASKS}
    where = str(file) if isinstance(file, Path) else name
    arrays = read_archive(file, where, lambda key: key in wanted or key.startswith("edge_"))
    return _graph(arrays, name, regression or bool(_scalar(arrays, "regression", name)))


def write_npz(graph: Graph, path: Path, meta: Mapping[str, Any] | None = None) -> None:
    """Write ``graph`` in the format that `read_npz` reads, compressed, under a temporary name first."""
    arrays: dict[str, Any] = {"num_nodes": np.int64(graph.num_nodes)}
    # By (source, target): sorted edges compress best.
    order = torch.argsort(graph.adj.indices, stable=True)
    arrays["edge_index"] = _small(graph.edge_index()[:, order])
    if graph.adj.weight is not None:
        arrays["edge_weight"] = graph.adj.weight[order].numpy()
    arrays |= {name: value[order].numpy() for name, value in graph.edge_tensors.items()}
    if isinstance(graph.x, Csr):
        data = torch.ones(graph.x.nnz) if graph.x.weight is None else graph.x.weight
        arrays["x_indptr"] = _small(graph.x.indptr)
        arrays["x_indices"] = _small(graph.x.indices)
        arrays["x_data"] = _small(data)
        arrays["x_shape"] = np.array([graph.x.num_rows, graph.x.num_cols])
    elif graph.x is not None:
        arrays["x"] = _small(graph.x)
    if graph.y is not None:
        narrow = np.int16 if graph.num_classes <= 2**15 else np.int64
        kind = np.float32 if graph.regression else np.uint8 if graph.multi_label else narrow
        arrays["y"] = graph.y.numpy().astype(kind)
        arrays |= {"regression": np.int64(1)} if graph.regression else {"num_classes": np.int64(graph.num_classes)}
    for key in MASKS:
        if (mask := getattr(graph, key)) is not None:
            arrays[key] = np.packbits(mask.numpy())
    if not torch.equal(graph.ids, torch.arange(graph.num_nodes)):
        arrays["ids"] = graph.ids.numpy()
    if meta is not None:
        arrays["meta"] = np.array(json.dumps(meta))
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_meta(file: Path) -> dict[str, Any]:
    """The JSON text under the key ``meta``; empty where there is none."""
    found = read_archive(file, str(file), lambda key: key == "meta")
    meta: dict[str, Any] = json.loads(str(found["meta"])) if found else {}
    return meta


def _graph(arrays: Arrays, name: str, regression: bool) -> Graph:
    if "edge_index" not in arrays:
        raise InputError(f"{name} has no array edge_index, found {sorted(arrays) or 'none'}; store int [2, E] edges")
    x = _sparse(arrays, name) if "x_indptr" in arrays else arrays.get("x")
    num_nodes = _scalar(arrays, "num_nodes", name)
    y = (to_values if regression else to_labels)(arrays.get("y"))
    if num_nodes is None and any(key in arrays for key in MASKS) and y is not None:
        num_nodes = y.shape[0]
    masks = [_mask(arrays[key], num_nodes, key) if key in arrays else None for key in MASKS]
    graph = Graph.from_edge_index(
        arrays["edge_index"],
        num_nodes,
        x,
        y,
        edge_weight=arrays.get("edge_weight"),
        ids=arrays.get("ids"),
        name=name,
        num_classes=None if regression else _scalar(arrays, "num_classes", name),
        regression=regression,
        edge_tensors={key: arrays[key] for key in arrays if key.startswith("edge_") and key not in EDGES},
    )
    return graph.with_split(*masks)


def _scalar(arrays: Arrays, key: str, name: str) -> int | None:
    if key not in arrays:
        return None
    if arrays[key].size != 1 or arrays[key].dtype.kind not in "iu":
        raise InputError(f"{key} in {name} has shape {list(arrays[key].shape)}, expected one whole number")
    return int(arrays[key].item())


def _sparse(arrays: Arrays, name: str) -> Csr:
    missing = [key for key in ("x_indices", "x_data", "x_shape") if key not in arrays]
    if missing:
        raise InputError(f"{name} has x_indptr but not {', '.join(missing)}; store all parts of the sparse features")
    for key in ("x_indptr", "x_indices", "x_data"):
        if arrays[key].ndim != 1:
            raise InputError(f"{key} of {name} has shape {list(arrays[key].shape)}, expected one dimension")
    shape = arrays["x_shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise InputError(f"x_shape of {name} is {shape.tolist()}, expected two whole numbers: rows and columns")
    rows, cols = (int(size) for size in shape)
    indptr, indices = to_indices(arrays["x_indptr"], "x_indptr").long(), to_indices(arrays["x_indices"], "x_indices")
    data = to_tensor(arrays["x_data"], "x_data")
    fits = indptr.numel() == rows + 1 and indices.numel() == data.numel() and bool((indptr.diff() >= 0).all())
    if not fits or int(indptr[0]) != 0 or int(indptr[-1]) != indices.numel():
        raise InputError(f"the sparse features of {name} do not fit together; x_indptr must run from 0 to len(x_data)")
    row = torch.repeat_interleave(torch.arange(rows), indptr.diff())
    return sparse_features(row, indices, data, rows, cols)


def _mask(values: np.ndarray[Any, Any], num_nodes: int | None, key: str) -> Tensor:
    if values.dtype == np.bool_:
        return to_tensor(values, key)
    if num_nodes is None or values.dtype != np.uint8 or values.shape != (-(-num_nodes // 8),):
        raise InputError(
            f"{key} has shape {list(values.shape)} and type {values.dtype}, "
            "expected booleans [N] or np.packbits of N booleans"
        )
    return torch.from_numpy(np.unpackbits(values, count=num_nodes).astype(bool))


def _small(values: Tensor) -> np.ndarray[Any, Any]:
    """The narrowest type that holds ``values`` exactly."""
    array: np.ndarray[Any, Any] = values.numpy()
    for dtype in (np.uint8, np.uint16, np.int32):
        if array.size and (array.min() < 0 or array.max() > np.iinfo(dtype).max):
            continue
        narrow = array.astype(dtype)
        if np.array_equal(narrow, array):
            return narrow
    return array
