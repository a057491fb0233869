"""Graphs from PyTorch Geometric: from ``Data``, and from ``HeteroData`` as one graph whose edges have types."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from halowire.errors import InputError
from halowire.graph.checks import check
from halowire.graph.graph import Graph
from halowire.graph.tensors import to_coo

FREE = ("edge_index", "adj", "adj_t", "edge_label", "edge_label_index", "y", "ptr")
"""Tensors that a kind of nodes or edges may lack (it may lack masks as well): the edges themselves, and labels."""


def from_pyg(data: Any, name: str = "pyg", split: int = 0, regression: bool = False) -> Graph:
    """Convert a ``torch_geometric.data.Data`` or ``HeteroData``.

    Taken over are ``edge_index`` (or a torch-sparse ``adj_t``), ``x`` (dense or sparse), ``y``, the masks, ``n_id`` as
    ids, and ``edge_weight``, else an ``edge_attr`` of one column. Other tensors of the edges (``edge_attr`` of several
    columns, ``edge_type``, ...) become the graph's ``edge_tensors``. ``split`` picks the column of masks
    ``[N, splits]``. With ``regression``, ``y`` holds values instead of classes.
    """
    if is_hetero(data):
        data = homogeneous(data)
    if not hasattr(data, "edge_index"):
        raise InputError(f"got a {type(data).__name__}, expected a torch_geometric.data.Data with edge_index")
    edge_index, weight = data.edge_index, _edge_weight(data)
    if edge_index is None:
        edge_index, weight = _from_adj_t(data)
    graph = Graph.from_edge_index(
        edge_index,
        data.num_nodes,
        getattr(data, "x", None),
        getattr(data, "y", None),
        edge_weight=weight,
        ids=getattr(data, "n_id", None),
        name=name,
        regression=regression,
        edge_tensors=_edge_tensors(data, weight),
    )
    return check(graph.with_split(*(_mask(data, key, split) for key in ("train_mask", "val_mask", "test_mask"))))


def _edge_weight(data: Any) -> Tensor | None:
    weight: Tensor | None = getattr(data, "edge_weight", None)
    if weight is not None:
        return weight
    weight = getattr(data, "edge_attr", None)
    several = weight is not None and (weight.dim() > 2 or (weight.dim() == 2 and weight.shape[1] > 1))
    return None if several else weight


def _edge_tensors(data: Any, weight: Tensor | None) -> dict[str, Tensor]:
    """The tensors of the edges beside their weight: those whose names begin with ``edge_``."""
    if data.edge_index is None:
        return {}
    keys = data.keys() if callable(getattr(data, "keys", None)) else getattr(data, "keys", ())
    names = [key for key in keys if key.startswith("edge_") and not key.endswith("index") and key != "edge_weight"]
    tensors = {name: data[name] for name in names if isinstance(data[name], Tensor) and data[name] is not weight}
    count = data.edge_index.shape[1]
    return {name: value for name, value in tensors.items() if value.dim() and value.shape[0] == count}


def _from_adj_t(data: Any) -> tuple[Tensor, Tensor | None]:
    adj_t = getattr(data, "adj_t", None)
    if not isinstance(adj_t, Tensor):
        raise InputError("data.edge_index is missing, expected [2, E] edges; undo the ToSparseTensor transform first")
    entries = to_coo(adj_t)
    return entries.indices().flip(0), entries.values()


def _mask(data: Any, key: str, split: int) -> Tensor | None:
    mask: Tensor | None = getattr(data, key, None)
    if mask is None or mask.dim() != 2:
        return mask
    if not 0 <= split < mask.shape[1]:
        raise InputError(f"split {split} was asked for, but {key} has splits 0..{mask.shape[1] - 1}")
    return mask[:, split]


def is_hetero(data: Any) -> bool:
    """Whether ``data`` is a ``HeteroData``; PyG need not be installed to know that it is not."""
    return any(kind.__name__ == "HeteroData" for kind in type(data).__mro__)


def homogeneous(data: Any) -> Any:
    """``data.to_homogeneous()``: all nodes, kind after kind, with ``node_type``, and all edges with ``edge_type``.

    Nodes of kinds without labels stay unlabelled (-1 or NaN) and are in no mask. Tensors that some kinds lack, or that
    are not equally wide, are refused: PyG would fill them up, pad them or leave them out without a warning.
    """
    if not data.edge_types:
        raise InputError("the HeteroData has no kind of edges; give it at least one with edge_index")
    for what, names in (("node", list(data.node_types)), ("edge", list(data.edge_types))):
        for key in _keys(data, names):
            _refuse_uneven(data, what, names, key)
    return data.to_homogeneous()


def _keys(data: Any, names: list[Any]) -> list[str]:
    """The names of the tensors that all kinds must have because one kind has them, in the order of that kind."""
    found = {key: None for name in names for key, value in data[name].items() if hasattr(value, "shape")}
    return [key for key in found if key not in FREE and not key.endswith("mask")]


def _refuse_uneven(data: Any, what: str, names: list[Any], key: str) -> None:
    widths = {_word(name): tuple(data[name][key].shape[1:]) for name in names if key in data[name]}
    lacking = [_word(name) for name in names if key not in data[name]]
    if widths and lacking:
        raise InputError(
            f"{what}s of the kind {lacking[0]} have no {key}, others have; give all kinds features of one width "
            f"({key} of zeros, or a learnt map of their own before the graph is given), or remove {key}"
        )
    if len(set(widths.values())) > 1:
        found = ", ".join(f"{name} {list(shape)}" for name, shape in widths.items())
        raise InputError(
            f"{key} of the {what} kinds have different widths ({found}); pad them, or map them to one width before "
            "the graph is given: the model then sees one graph with edge_type"
        )


def _word(name: Any) -> str:
    return name if isinstance(name, str) else "/".join(name)
