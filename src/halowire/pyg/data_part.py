"""``ShardData`` is one worker's part of a graph; to a script it looks like PyG's ``Data``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.partitioning import HaloLists, Shard
from halowire.pyg.adjacency import Adjacency
from halowire.pyg.any_nodes import Directory
from halowire.pyg.before_cut import AsksFirst, refuse_in_pyg
from halowire.pyg.bridge import Bridge
from halowire.pyg.cut_number import cut_number
from halowire.pyg.data_habits import whole_only
from halowire.pyg.edge_mask import with_masks, with_types
from halowire.pyg.edges import Edges
from halowire.pyg.gathering import Gathering
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.leaves import leaves
from halowire.pyg.losses import Losses
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.node_index import refuse_no_index, row_places, translated
from halowire.pyg.own_rows import OwnEdges, OwnIndex, OwnRows, plain
from halowire.pyg.pairs import pair_names
from halowire.pyg.row_owner import Owner
from halowire.pyg.whole_loss import Reduction
from halowire.wire import HaloExchanges, Policy, Transport

OWN = frozenset({"shard", "bridge", "passing", "reduction", "rows", "owner", "edge_owner", "pair_rows"})
"""Attributes that are no tensors of the graph."""
ABSENT = frozenset({"x", "edge_attr", "edge_weight", "edge_type", "y", "pos", "batch", "time", "face"})
"""Tensors that PyG's ``Data`` gives as None where a graph has none."""


_STAND_IN: ContextVar[tuple[Any, Any]] = ContextVar("stand-in", default=(None, None))


@contextmanager
def standing_in(data: ShardData | HeteroShardData, graph: Any) -> Iterator[None]:
    """Inside the block, and in this thread, whoever reads ``data`` reads ``graph``.

    So a model that reads the part from outside of its forward can be rehearsed on another graph.
    """
    token = _STAND_IN.set((data, graph))
    try:
        yield
    finally:
        _STAND_IN.reset(token)


class ShardData(AsksFirst, Gathering, Losses):
    """One worker's part of a graph under PyG's names: ``x``, ``edge_index``, ``y``, masks, edge tensors.

    Node tensors hold the ``n`` owned rows; edge tensors hold the edges into these rows, in the user's order, or by
    owned row where the user's edges are sorted by target. ``rows`` are the owned rows' places in the user's graph and
    ``edge_rows`` those of the edges, ``num_nodes`` is ``n``, ``keys`` are the tensors' names.
    """

    shard: Shard
    bridge: Bridge
    passing: ModelPass
    reduction: Reduction
    rows: Tensor
    owner: Owner
    edge_owner: Owner
    tensors: dict[str, Any]

    def __init__(self, shard: Shard, bridge: Bridge, edge_index: Tensor, tensors: Mapping[str, Any]) -> None:
        object.__setattr__(self, "tensors", {"edge_index": edge_index, **tensors})
        self.shard = shard
        self.bridge = bridge
        self.passing = bridge.passing
        self.passing.part = self
        self.reduction = Reduction(bridge.transport, (shard.num_owned, edge_index.shape[1]))
        self.rows = shard.rows
        cut = cut_number({"": shard.rows}, bridge.transport)
        self.owner = Owner(shard.num_owned, shard.num_nodes, bridge.passing, rows=shard.rows, cut=cut)
        self.edge_owner = Owner(edge_index.shape[1], shard.num_nodes, bridge.passing, targets=self.owner)
        bridge.edge_owner = self.edge_owner
        for name, value in tensors.items():
            self.tensors[name] = self._rows(name, value)
        if isinstance(x := tensors.get("x"), Tensor):
            bridge.keep(x)

    def __getattribute__(self, name: str) -> Any:
        """The attribute of this part, or of the graph that stands in for it."""
        data, graph = _STAND_IN.get()
        if data is self and not name.startswith("_"):
            return getattr(graph, name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a tensor of this part under the name that the script gives it, as PyG's ``Data`` does."""
        if name in OWN:
            object.__setattr__(self, name, value)
        elif name == "edge_index" and not isinstance(value, Edges):
            raise InputError(
                "data.edge_index of a part is replaced by edges that are not its own; change the edges of the whole "
                "graph before halowire.shard cuts it"
            )
        elif name == "num_nodes":
            raise InputError("data.num_nodes of a part is the number of its rows; set it before halowire.shard")
        else:
            self.tensors[name] = self._rows(name, value)

    def _rows(self, name: str, value: Any) -> Any:
        """``value``, marked as rows of this worker if it has one for each of its nodes, or of its edges."""
        if not isinstance(value, Tensor) or value.requires_grad:
            return value
        of_edges = self._is_of_edges(name, value)
        rows = of_edges or (value.shape[:1] == (self.owner.owned,) and not name.startswith("edge_"))
        known = type(value) is Tensor or (rows and (name == "y" or value.dtype == torch.bool))
        if not rows or not known:
            return value
        return OwnEdges.of(value, self.edge_owner) if of_edges else OwnRows.of(value, self.owner)

    def _is_of_edges(self, name: str, value: Tensor) -> bool:
        """Whether ``value`` has a row for each edge: as its name says, or since there are not as many nodes."""
        fits = value.shape[:1] == (self.edge_owner.owned,) and name != "edge_index"
        named = name.startswith("edge_") and name not in pair_names(self.tensors)
        return fits and (named or self.edge_owner.owned != self.owner.owned)

    def __delattr__(self, name: str) -> None:
        """Forget a tensor of this part."""
        if self.tensors.pop(name, None) is None:
            refuse_in_pyg()
            raise AttributeError(f"this part of the graph has no {name!r} to delete; it has {', '.join(self.tensors)}")

    def __getattr__(self, name: str) -> Any:
        """The tensor ``name`` of this part; None where PyG's ``Data`` would give None."""
        tensors = self.__dict__.get("tensors", {})
        if name in tensors:
            # In a pass of a model nothing needs marks, since every call is rehearsed.
            return plain(tensors[name]) if self.passing.inside else tensors[name]
        if name in ABSENT and tensors:
            return None
        if (refused := whole_only(name)) is not None:
            raise refused
        refuse_in_pyg()
        raise AttributeError(f"this part of the graph has no {name!r}; it has {', '.join(tensors)}")

    def translate(self, index: Any) -> Any:
        """Numbers of nodes of the whole graph as numbers of this worker's rows; nodes of other workers are left out.

        Example:
            >>> out[data.translate(split_idx["train"])]

        Args:
            index: node numbers ``[k]``, a mask of all nodes, bool ``[N]``, or a dictionary of these.
        """
        if isinstance(index, Mapping):
            return {name: self.translate(item) for name, item in index.items()}
        if isinstance(index, Tensor) and index.dtype == torch.bool and index.shape == (self.shard.num_nodes,):
            return OwnRows.of(index[self.rows.to(index.device)], self.owner)
        return OwnIndex.of(translated(index, self.places(), "the index"), self.owner)

    def own(self, index: Any) -> Tensor:
        """``index``, numbers of this worker's rows from 0 to ``data.num_nodes - 1``, marked as such."""
        found: Tensor = OwnIndex.of(refuse_no_index(index, self.num_nodes, "the index of own rows"), self.owner)
        return found

    def places(self) -> Tensor:
        """This worker's row of every node of the whole graph, int64 ``[N]``; -1 for nodes of other workers."""
        return row_places(self.rows, self.shard.num_nodes)

    def rows_of(self, values: Tensor, nodes: Tensor) -> Tensor:
        """The rows of any ``nodes``, by their numbers in the whole graph, of ``values`` ``[n, ...]``, such as outputs.

        All workers call this together, each with nodes of its own. Rows travel exactly, whatever the recipe; in
        backward their gradients return to the owners. The result has a row for each of ``nodes``.

        Example:
            >>> user, item = data.rows_of(out, pairs[0]), data.rows_of(out, pairs[1])
        """
        rows = plain(values)
        found: Tensor = rows[Directory.of(self.bridge).marked(nodes, rows.device)]
        return found

    @property
    def transport(self) -> Transport:
        """The connection to the other workers."""
        return self.passing.transport

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the tensors that a model may be called with."""
        return tuple(self.keys)

    def named_input(self, name: str) -> Any:
        """The tensor ``name`` that a model may be called with; None where there is none."""
        return getattr(self, name) if name in self.keys else None

    @property
    def task_shard(self) -> Shard:
        """The shard that has the labels and masks."""
        return self.shard

    def task_rows(self, out: Any) -> Any:
        """The model's output as rows of `task_shard`."""
        return out

    @property
    def num_learnt(self) -> int:
        """The number of nodes of the whole graph."""
        return self.shard.num_nodes

    def own_rows(self, rows: Tensor) -> Tensor:
        """The rows of the model's output among those of `task_shard`: all of them, marked as this worker's."""
        found: Tensor = OwnRows.of(rows, self.owner)
        return found

    @property
    def num_local_edges(self) -> int:
        """The edges into this worker's rows."""
        return self.num_edges

    def known(self, value: Any) -> Any:
        """What a model is called with, whose types of edges and masks of nodes know what is known of them."""
        typed = with_types(value, self.bridge.known, self.num_local_edges)
        return with_masks(typed, self.bridge.masks, self.shard.num_owned)

    @property
    def most_nodes(self) -> int:
        """The number of nodes of the whole graph."""
        return self.shard.num_nodes

    @property
    def halos(self) -> dict[str, HaloLists]:
        """The rows that are sent and received, by the name of the halo: a graph of one edge type has one."""
        return {self.bridge.name: self.shard}

    def exchanges(self, policy: Policy, summing: Collection[str] = ()) -> HaloExchanges:
        """New exchanges of this part's halos under ``policy``, with partial sums for the layers ``summing``."""
        return HaloExchanges(self.halos, self.transport, self.passing.device, policy, summing)

    def __repr__(self) -> str:
        rank, size = self.shard.rank, self.shard.num_parts
        return f"ShardData(part {rank} of {size}: {self.num_nodes:,} nodes, {self.edge_index.shape[1]:,} edges)"


def holds_graph(value: Any) -> bool:
    """Whether there is a part, or edges of one, in ``value``."""
    return any(isinstance(leaf, Adjacency | Edges | HeteroShardData | ShardData) for leaf in leaves(value))


def part_of(value: Any) -> ShardData | HeteroShardData | None:
    """The part whose edges are in ``value``, or the part itself; None where there is neither."""
    for leaf in leaves(value):
        if isinstance(leaf, HeteroShardData | ShardData):
            return leaf
        edges = leaf.edges if isinstance(leaf, Adjacency) else leaf
        if isinstance(edges, Edges):
            part: ShardData | HeteroShardData = edges.bridge.passing.part
            return part
    return None
