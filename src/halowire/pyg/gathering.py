"""Rows of all workers as one tensor: those of nodes and of edges come in the order of the user's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import EVAL, SETUP
from halowire.pyg.data_habits import DataHabits
from halowire.pyg.edge_forms import ALL_EDGES, EdgeForm
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.outputs import Belongs
from halowire.pyg.own_rows import OwnEdges, OwnRows, plain
from halowire.pyg.pair_habits import PairHabits
from halowire.pyg.row_owner import Owner

if TYPE_CHECKING:
    from halowire.pyg.whole_loss import Reduction
    from halowire.wire import Transport

COUNTING = "counts of gathered rows"


class Gathering(DataHabits, PairHabits):
    """How a part puts the rows of all workers together."""

    rows: Tensor
    owner: Owner
    reduction: Reduction

    def gather(self, values: Tensor) -> Tensor:
        """All workers' ``values``, the same on every worker and without gradients.

        Rows of nodes ``[n, ...]`` come in the order of the user's nodes, ``[N, ...]``. Values of edges, such as
        ``data.edge_attr`` or the attention weights that the model gives, come in the order that they have on the whole
        graph, and ``edge_index`` itself with the user's numbers of nodes. Anything else, such as the scores of pairs,
        comes worker after worker.

        Example:
            >>> out, (edge_index, alpha) = model(data.x, data.edge_index)  # with return_attention_weights=True
            >>> edge_index, alpha = data.gather(edge_index), data.gather(alpha)  # [2, E + N] and [E + N, heads]
        """
        if isinstance(values, Edges):
            ends = self._numbers(unmarked(values).cpu()).t()
            return self._in_order(ends, values.form).t()
        if isinstance(values, OwnEdges):
            return self._in_order(bare(values), values.owner.form)
        values = bare(values)
        transport, here = self.passing.transport, [values.shape[0], self.num_nodes, self.num_edges]
        first, nodes, edges = self.reduction.counted(here, COUNTING)
        if not torch.equal(first, nodes) and torch.equal(first, edges):
            return self._in_order(values, ALL_EDGES)
        before = int(first[: transport.rank].sum())
        places = self.rows if torch.equal(first, nodes) else torch.arange(before, before + values.shape[0])
        return joined(values, places, int(first.sum()), transport)

    @property
    def edge_rows(self) -> Tensor:
        """The numbers of this worker's edges among those of the whole graph, int64 ``[E']``, on the CPU.

        The edges of shards from disk are numbered by target, then by source. All workers ask together, once.
        """
        kept: Tensor | None = self.__dict__.get("_edge_rows")
        if kept is None:
            kept = self.__dict__["_edge_rows"] = self._numbered_edges()
        return kept.long()

    def number_edges(self, edge_rows: Tensor | None) -> None:
        """Keep the numbers ``edge_rows`` of this worker's edges in the user's graph; None: they are not known."""
        self.__dict__["_edge_rows"] = edge_rows

    def give(self, value: Tensor, belongs: Belongs) -> Any:
        """``value``, which a model gave, marked as rows of this worker's nodes or of a list of its edges."""
        if belongs.pairs:
            return value
        if belongs.form is None:
            return OwnRows.of(value, self.owner) if value.shape[:1] == (self.num_nodes,) else value
        wanted = belongs.form.count(unmarked(self.tensors["edge_index"]), self.num_nodes)
        owner = Owner(wanted, self.shard.num_nodes, self.passing, belongs.form, targets=self.owner)
        return edges_of_model(value, owner)

    def _in_order(self, values: Tensor, form: EdgeForm) -> Tensor:
        """The values of all workers' edges, in the order of the list ``form`` of the whole graph."""
        edges = unmarked(self.tensors["edge_index"])
        keys = form.keys(edges, self.edge_rows, self.rows, self.num_whole_edges)
        return in_order(values, keys, self.reduction)

    def _numbered_edges(self) -> Tensor:
        """Number the edges of all workers by target, then by source; parallel edges in the order of the part."""
        source, target = self._numbers(unmarked(self.tensors["edge_index"]).cpu())
        whole = self.shard.num_nodes
        degrees = torch.bincount(target, minlength=whole)
        mine = degrees.cumsum(0) - degrees  # where a target's edges begin among this worker's
        self.passing.transport.all_reduce(degrees, "numbers of all edges", SETUP)
        order = torch.argsort(target * whole + source, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(order.numel())
        return rank - mine[target] + (degrees.cumsum(0) - degrees)[target]


def edges_of_model(value: Tensor, owner: Owner) -> Any:
    """``value``, which a model gave for the edges of ``owner``, marked as theirs."""
    given = value.shape[-1] if isinstance(value, Edges) else value.shape[0]
    if owner.owned != given:
        raise InputError(
            f"the model gives {given} values of edges, but when it was checked it gave one for each of the edges, "
            f"here {owner.owned}; values of drawn or dropped edges have no place in the whole graph: use them inside "
            "of the model"
        )
    if isinstance(value, Edges):
        value.form = owner.form
        return value
    return OwnEdges.of(value, owner)


def in_order(values: Tensor, keys: Tensor, reduction: Reduction) -> Tensor:
    """The values of all workers' edges, in the order of their ``keys``, which are those of the whole graph."""
    transport = reduction.transport
    first, wanted = reduction.counted([values.shape[0], keys.numel()], COUNTING)
    if not torch.equal(first, wanted):
        raise InputError(
            f"values of edges are gathered, {int(first.sum())} on all workers together, but the list that they "
            f"belong to has {int(wanted.sum())} edges; gather values for all edges, and pick some of them then"
        )
    before, total = int(first[: transport.rank].sum()), int(first.sum())
    places = torch.arange(before, before + keys.numel())
    order = joined(keys, places, total, transport).argsort()
    return joined(values, places, total, transport)[order]


def bare(values: Tensor) -> Tensor:
    """``values`` without marks and gradients, on the CPU."""
    found: Tensor = plain(values).detach().cpu().contiguous()
    return found


def joined(values: Tensor, places: Tensor, total: int, transport: Transport) -> Tensor:
    """The rows of all workers, each at its place among ``total``."""
    kind = torch.uint8 if values.dtype == torch.bool else values.dtype
    whole = values.new_zeros(total, *values.shape[1:], dtype=kind)
    whole[places] = values.to(kind)
    return transport.all_reduce(whole, "gathering of rows", EVAL).to(values.dtype)
