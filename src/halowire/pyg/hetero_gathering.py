"""Rows of a part with several node types: told from other workers' rows, and put together in the user's order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.edge_forms import ALL_EDGES, EdgeForm
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.gathering import COUNTING, bare, edges_of_model, in_order, joined
from halowire.pyg.held_edges import HeldEdges
from halowire.pyg.node_index import refuse_no_index, row_places, translated
from halowire.pyg.outputs import Belongs
from halowire.pyg.own_rows import OwnEdges, OwnIndex, OwnRows
from halowire.pyg.row_owner import Owner
from halowire.pyg.typed_pairs import TypedPairs

if TYPE_CHECKING:
    from halowire.partitioning import EdgeType
    from halowire.pyg.whole_loss import Reduction


class HeteroGathering(TypedPairs):
    """How a part marks its rows by type, and puts the rows of all workers together."""

    owners: dict[str, Owner]
    reduction: Reduction

    def gather(self, values: Tensor, kind: Any = None) -> Tensor:
        """All workers' ``values``, the same on every worker and without gradients.

        Outputs of the model come in the order of the user's nodes or edges of their type, and so do tensors of this
        part if ``kind`` says of which type they are. Scores of pairs come worker after worker.

        Example:
            >>> rows = data.gather(model(data.x_dict, data.edge_index_dict)["paper"])  # one row for every paper
            >>> alpha = data.gather(alpha, ("author", "writes", "paper"))

        Args:
            values: rows of this worker, ``[n, ...]``, or the ``edge_index`` of one edge type.
            kind: the node type or edge type that they belong to.
        """
        if isinstance(values, Edges):
            relation, ends = self._type_of(values), unmarked(values).cpu()
            held = self._held(relation)
            return in_order(held.numbered(ends), held.keys(values.form), self.reduction).t()
        if isinstance(values, OwnEdges) and isinstance(values.owner.kind, tuple):
            return self._edges_in_order(bare(values), values.owner.kind, values.owner.form)
        if isinstance(values, OwnRows) and isinstance(values.owner.kind, str):
            kind = kind or values.owner.kind
        values = bare(values)
        if kind is not None and kind not in self.shard.num_nodes:
            return self._edges_in_order(values, self._relation(kind), ALL_EDGES)
        return self._nodes_in_order(values, kind)

    def translate(self, index: Any, name: str) -> Any:
        """Numbers of nodes of type ``name`` in the whole graph as numbers of this worker's rows of it.

        Nodes of other workers are left out.

        Example:
            >>> out["paper"][data.translate(split_idx["train"], "paper")]

        Args:
            index: node numbers ``[k]``, a mask of all nodes of the type, bool ``[N]``, or a dictionary of these.
            name: the node type.
        """
        if isinstance(index, Mapping):
            return {key: self.translate(item, name) for key, item in index.items()}
        owner = self._owner(name)
        rows, whole = self.shard.rows[name], self.shard.num_nodes[name]
        if isinstance(index, Tensor) and index.dtype == torch.bool and index.shape == (whole,):
            return OwnRows.of(index[rows.to(index.device)], owner)
        return OwnIndex.of(translated(index, row_places(rows, whole), "the index"), owner)

    def own(self, index: Any, name: str) -> Tensor:
        """``index``, numbers of this worker's rows of type ``name``, marked as such."""
        owner = self._owner(name)
        found: Tensor = OwnIndex.of(refuse_no_index(index, owner.owned, "the index of own rows"), owner)
        return found

    def give(self, value: Tensor, belongs: Belongs) -> Any:
        """``value``, which a model gave, marked as rows of this worker's nodes or edges of one type."""
        if belongs.pairs or belongs.kind is None:
            return value
        if belongs.form is None:
            owner = self.owners[belongs.kind]
            return OwnRows.of(value, owner) if value.shape[:1] == (owner.owned,) else value
        target = belongs.kind[2]
        edges = self.shard.relations[belongs.kind].edge_index
        wanted = belongs.form.count(edges, self.shard.rows[target].numel())
        whole, targets = self.shard.num_nodes[target], self.owners[target]
        owner = Owner(wanted, whole, self.passing, belongs.form, kind=belongs.kind, targets=targets)
        return edges_of_model(value, owner)

    def _nodes_in_order(self, values: Tensor, name: str | None) -> Tensor:
        """Rows in the order of the user's nodes of type ``name``; without it, worker after worker."""
        transport = self.passing.transport
        owned = -1 if name is None else self.owners[name].owned
        first, wanted = self.reduction.counted([values.shape[0], owned], COUNTING)
        if name is not None and not torch.equal(first, wanted):
            raise InputError(
                f"rows of {name!r} are gathered, {int(first.sum())} on all workers together, but there are "
                f"{int(wanted.sum())}; gather the rows of all nodes, and pick some of them then"
            )
        before = int(first[: transport.rank].sum())
        places = torch.arange(before, before + values.shape[0]) if name is None else self.shard.rows[name]
        return joined(values, places, int(first.sum()), transport)

    def _edges_in_order(self, values: Tensor, kind: EdgeType, form: EdgeForm) -> Tensor:
        return in_order(values, self._held(kind).keys(form), self.reduction)

    def _held(self, kind: EdgeType) -> HeldEdges:
        return next(held for held in HeldEdges.of_types(self) if held.kind == kind)

    def _type_of(self, edges: Edges) -> EdgeType:
        """The type of ``edges``, whose bridge has its name."""
        named = getattr(edges.bridge, "name", None)
        found = (kind for kind in self.shard.relations if "__".join(kind) == named)
        kind = next(found, None)
        if kind is None:
            raise InputError("edges of several types are gathered; gather the edges of each type by themselves")
        return kind

    def _owner(self, name: str) -> Owner:
        if name not in self.owners:
            raise InputError(f"there is no node type {name!r}; the node types are {', '.join(self.owners)}")
        return self.owners[name]
