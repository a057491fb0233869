"""Attributes that name nodes, such as ``train_idx``, are translated into numbers of a worker's own rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError

ROLES = ("train", "val", "valid", "validation", "test", "seed", "target", "root", "labeled", "labelled", "unlabeled",
         "unlabelled")  # fmt: skip
ENDINGS = ("idx", "index", "indices", "nodes")
NAMES = frozenset(f"{role}_{ending}" for role in ROLES for ending in ENDINGS) | {"split_idx", "splits"}
"""Attributes that name nodes, where their values are numbers of nodes."""


def names_nodes(name: str, value: Any, num_nodes: int, told: Collection[str] = ()) -> bool:
    """Whether the attribute ``name`` names nodes of the whole graph: told so, or by its name, type and range."""
    if isinstance(value, Mapping):
        return (name in told or name in NAMES) and all(
            names_nodes(name, item, num_nodes, told) for item in value.values()
        )
    if name in told:
        if not _is_index(value, num_nodes):
            raise InputError(
                f"node_index names {name!r}, which is no list of node numbers from 0 to {num_nodes - 1}; leave it out, "
                "or give whole numbers"
            )
        return True
    return name in NAMES and _is_index(value, num_nodes)


def _is_index(value: Any, num_nodes: int) -> bool:
    whole = isinstance(value, Tensor) and value.dim() == 1 and value.dtype in (torch.int64, torch.int32)
    return whole and (not value.numel() or (int(value.min()) >= 0 and int(value.max()) < num_nodes))


def translated(value: Any, place: Tensor, name: str = "index") -> Any:
    """``value``, numbers of nodes of the whole graph, as numbers of owned rows; nodes of other workers are left out.

    ``place`` ``[N]`` is the row of every owned node, and -1 for all others.
    """
    if isinstance(value, Mapping):
        return {key: translated(item, place, f"{name}[{key!r}]") for key, item in value.items()}
    rows = place[refuse_no_index(value, place.numel(), name).to(place.device).long()]
    return rows[rows >= 0].to(value.device)


def row_places(rows: Tensor, num_nodes: int) -> Tensor:
    """The place of every one of ``num_nodes`` nodes among the owned ``rows``, int64 ``[N]``; -1 for all others."""
    place = torch.full((num_nodes,), -1)
    place[rows] = torch.arange(rows.numel())
    return place


def refuse_no_index(value: Any, num_nodes: int, name: str) -> Tensor:
    """``value`` as whole numbers from 0 to ``num_nodes - 1``, or a refusal."""
    index = torch.as_tensor(value)
    if index.dim() != 1 or index.is_floating_point() or index.dtype == torch.bool:
        raise InputError(
            f"{name} has shape {list(index.shape)} and type {index.dtype}; node numbers are a list of whole numbers, "
            f"and a mask has one entry for each of the {num_nodes} nodes"
        )
    if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < num_nodes):
        raise InputError(
            f"{name} names node {int(index.max()) if int(index.max()) >= num_nodes else int(index.min())}, but the "
            f"graph has {num_nodes} nodes; give numbers of the whole graph, from 0 to {num_nodes - 1}"
        )
    return index
