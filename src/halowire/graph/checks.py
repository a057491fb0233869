"""Checks a graph before anything expensive starts, and says in one line what is wrong with it."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph.graph import Graph
from halowire.kernels import Csr

MOST_CLASSES = 1 << 20
"""More classes than this and than nodes are a mistake: a model would get a column for each."""


def check(graph: Graph) -> Graph:
    """Return ``graph`` if it can be partitioned and trained on, else raise `InputError`."""
    if graph.num_nodes == 0:
        raise InputError(f"graph {graph.name!r} has no nodes, expected at least one; check the input file")
    _check_adjacency(graph)
    _check_ids(graph)
    _check_features(graph)
    _check_labels(graph)
    _check_masks(graph)
    return graph


def _check_adjacency(graph: Graph) -> None:
    adj = graph.adj
    if adj.num_cols != adj.num_rows:
        raise InputError(f"the adjacency is [{adj.num_rows}, {adj.num_cols}], expected a square matrix [N, N]")
    if adj.nnz and (int(adj.indices.min()) < 0 or int(adj.indices.max()) >= adj.num_cols):
        raise InputError(
            f"node ids of edges run from {int(adj.indices.min())} to {int(adj.indices.max())}, "
            f"expected 0..{adj.num_cols - 1}; check num_nodes and whether the ids start at 0"
        )
    if adj.weight is not None:
        bad = ~torch.isfinite(adj.weight) | (adj.weight < 0)
        if bool(bad.any()):
            value = float(adj.weight[bad][0])
            raise InputError(
                f"{int(bad.sum())} edge weights are negative or not finite (the first is {value}), "
                "expected numbers >= 0; drop or rescale them"
            )


def _check_ids(graph: Graph) -> None:
    if graph.ids.shape != (graph.num_nodes,):
        raise InputError(f"ids have shape {list(graph.ids.shape)}, expected [{graph.num_nodes}]: one id per node")
    ordered = graph.ids.sort().values
    if int(ordered[0]) < 0:
        raise InputError(f"node id {int(ordered[0])} is negative, expected ids >= 0; renumber the nodes")
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.numel():
        raise InputError(f"node id {int(twice[0])} occurs more than once, expected every id once; renumber the nodes")


def _check_features(graph: Graph) -> None:
    if graph.x is None:
        return
    if graph.x.shape[0] != graph.num_nodes:
        raise InputError(f"x has {graph.x.shape[0]} rows, expected {graph.num_nodes}: one row of features per node")
    if graph.num_features == 0:
        raise InputError("x has no columns, expected at least one feature; leave x out for a graph without features")
    values = graph.x.weight if isinstance(graph.x, Csr) else graph.x
    if values is None or bool(torch.isfinite(values).all()):
        return
    bad = ~torch.isfinite(values)
    entry = int(bad.flatten().nonzero()[0])
    if isinstance(graph.x, Csr):
        row, col = int(graph.x.row_index()[entry]), int(graph.x.indices[entry])
    else:
        row, col = divmod(entry, graph.num_features)
    raise InputError(
        f"x has {int(bad.sum())} values that are NaN or infinite (the first at node {int(graph.ids[row])}, "
        f"column {col}), expected finite numbers; fill or drop them"
    )


def _check_labels(graph: Graph) -> None:
    y = graph.y
    if y is None:
        return
    if y.shape[0] != graph.num_nodes:
        raise InputError(f"y has {y.shape[0]} rows, expected {graph.num_nodes}: one per node")
    most = max(MOST_CLASSES, graph.num_nodes)
    if graph.num_classes > most:
        raise InputError(
            f"the graph has {graph.num_classes} classes, expected at most {most}; check y and num_classes, or learn "
            "values: --task regression, task='regression' in fit"
        )
    if y.dim() == 2:
        if y.shape[1] != graph.num_classes:
            raise InputError(f"y has {y.shape[1]} columns, expected num_classes = {graph.num_classes}")
        if not graph.regression and not bool(((y == 0) | (y == 1)).all()):
            raise InputError(
                "y of a multi-label graph holds values other than 0 and 1; store one 0/1 column per label, or learn "
                "the values: --task regression, task='regression' in fit"
            )
        return
    bad = (y < -1) | (y >= graph.num_classes)
    if bool(bad.any()):
        node = int(bad.nonzero()[0])
        raise InputError(
            f"label {int(y[node])} of node {int(graph.ids[node])} is outside the classes, expected "
            f"0..{graph.num_classes - 1}, or -1 for an unlabelled node; correct y or num_classes"
        )


def _check_masks(graph: Graph) -> None:
    masks = {"train_mask": graph.train_mask, "val_mask": graph.val_mask, "test_mask": graph.test_mask}
    seen: list[tuple[str, Tensor]] = []
    for name, mask in masks.items():
        if mask is None:
            continue
        if mask.dtype != torch.bool or mask.shape != (graph.num_nodes,):
            raise InputError(
                f"{name} has shape {list(mask.shape)} and type {mask.dtype}, expected torch.bool [{graph.num_nodes}]"
            )
        if not bool(mask.any()):
            raise InputError(f"{name} is empty, expected at least one node; fill it or leave the mask out")
        for other, earlier in seen:
            both = mask & earlier
            if bool(both.any()):
                node = int(graph.ids[int(both.nonzero()[0])])
                raise InputError(
                    f"{other} and {name} share {int(both.sum())} nodes (the first is {node}), expected disjoint masks; "
                    "keep each node in one of them"
                )
        seen.append((name, mask))
        _check_mask_labels(graph, name, mask)


def _check_mask_labels(graph: Graph, name: str, mask: Tensor) -> None:
    if graph.y is None:
        raise InputError(f"{name} is given but the graph has no labels; give y as well or leave the mask out")
    if graph.y.dim() == 1 or graph.regression:
        bare = mask & ((graph.y < 0) if graph.y.dim() == 1 else ~torch.isfinite(graph.y).all(1))
        if bool(bare.any()):
            node = int(graph.ids[int(bare.nonzero()[0])])
            raise InputError(
                f"{name} holds {int(bare.sum())} unlabelled nodes (the first is {node}), expected labelled nodes only; "
                "remove them from the mask"
            )
