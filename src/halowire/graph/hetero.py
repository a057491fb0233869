"""Graphs with several kinds of nodes and edges (PyG's ``HeteroData``) as one graph whose edges know their kind."""

from __future__ import annotations

from typing import Any

from halowire.errors import InputError

FREE = ("edge_index", "adj", "adj_t", "edge_label", "edge_label_index", "y", "ptr")
"""What a kind may lack, beside masks: the edges themselves, and labels."""


def is_hetero(data: Any) -> bool:
    """Whether ``data`` is a ``HeteroData``; PyG need not be installed to know that it is not."""
    return any(kind.__name__ == "HeteroData" for kind in type(data).__mro__)


def homogeneous(data: Any) -> Any:
    """``data.to_homogeneous()``: all nodes, kind after kind, with ``node_type``, and all edges with ``edge_type``.

    Kinds without labels get none (-1 or NaN) and are in no mask. What else PyG would fill with NaN or -1, pad or leave
    out is refused: tensors that some kinds lack, or that are not equally wide.
    """
    if not data.edge_types:
        raise InputError("the HeteroData has no kind of edges; give it at least one with edge_index")
    for what, names in (("node", list(data.node_types)), ("edge", list(data.edge_types))):
        for key in _keys(data, names):
            _refuse_uneven(data, what, names, key)
    return data.to_homogeneous()


def _keys(data: Any, names: list[Any]) -> list[str]:
    """The tensors of some kinds that all of them must have, in the order of their first kind."""
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
