"""What a model is called with may tell why it cannot be rehearsed: numbers of rows, some of the rows, a function."""

from __future__ import annotations

import inspect
from typing import Any

from halowire.errors import InputError
from halowire.pyg.data_part import holds_graph
from halowire.pyg.leaves import leaves
from halowire.pyg.own_rows import OwnIndex, OwnSome
from halowire.pyg.pairs import Pairs


def explained(error: InputError, given: tuple[tuple[Any, ...], dict[str, Any]]) -> InputError:
    """``error`` of a rehearsal, with the way out that the inputs ``given`` show, if they show one."""
    args, kwargs = given
    kinds = {type(value) for value in leaves(given)}
    if OwnIndex in kinds:
        return InputError(
            f"{error}; it is called with numbers of rows, such as data.train_idx, which mean nothing on another graph: "
            "call it with a mask of the nodes: mask = torch.zeros(data.num_nodes, dtype=torch.bool); mask[index] = True"
        )
    if OwnSome in kinds:
        return InputError(
            f"{error}; it is called with some of the rows, such as data.y[mask], which do not fit another graph: call "
            "it with all rows, and pick them in the forward of a module of your own, which calls it with y[mask]"
        )
    if Pairs in kinds:
        return InputError(
            f"{error}; it is called with pairs of nodes, such as data.neg_edge_index or data.hop2_edge_index, and "
            "messages pass along edge_index alone: put all edges into edge_index, with a tensor of the edges that "
            "tells them apart, and part them in forward: edge_index[:, edge_type == 0]"
        )
    if any(inspect.isroutine(value) for value in (*args, *kwargs.values())):
        return InputError(
            f"{error}; it is called with a function, which may have tensors of this graph, as CorrectAndSmooth.correct "
            "does with its post_step: put the whole call into the forward of a module of your own"
        )
    if not holds_graph(given):
        return InputError(f"{error}; it is called without edges: give it edge_index in every call, also while training")
    return error
