"""``HeteroShardData`` is one worker's part of a ``HeteroData``, under PyG's names.

All node types are cut together, so that a node and its neighbours of other types tend to have one owner. Of each type
the part holds its own rows, of each edge type the edges into them. Every edge type has a halo and a bridge of its own
(`halowire.partitioning.Relation`): a layer that reads authors by ("author", "writes", "paper") fetches the authors
whose papers lie here, and nothing else. All bridges share one `ModelPass`, and so one numbering of the crossings, one
policy, one rehearsal and one loss; everything that serves a graph of one type serves each of them.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.partitioning import EdgeType, HaloLists, Shard, TypedPart, cut_types, type_owners
from halowire.pyg.before_cut import AsksFirst, refuse_in_pyg
from halowire.pyg.bridge import Bridge
from halowire.pyg.cut_number import cut_number
from halowire.pyg.edges import Edges
from halowire.pyg.hetero_gathering import HeteroGathering
from halowire.pyg.losses import Losses
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.node_index import names_nodes
from halowire.pyg.own_rows import OwnEdges, OwnRows, plain
from halowire.pyg.pairs import pair_names
from halowire.pyg.part_device import bytes_of, refuse_crowded
from halowire.pyg.row_owner import Owner
from halowire.pyg.same_graph import require_same_graph
from halowire.pyg.whole_loss import Reduction
from halowire.training import agreed
from halowire.wire import HaloExchanges, Policy, Transport

ASKED = frozenset({
    "node_types", "edge_types", "metadata", "node_items", "edge_items", "node_stores", "edge_stores", "collect",
    "num_node_features", "num_edge_features", "num_features", "keys",
})  # fmt: skip
"""What a script may ask PyG's ``HeteroData`` about this part; names that end in ``_dict`` are served too."""


class HeteroShardData(AsksFirst, HeteroGathering, Losses):
    """One worker's part of a graph of several node types: ``x_dict``, ``data["paper"].x``, ``edge_index_dict``.

    Tensors of nodes hold the owned rows of their type, ``data["paper"].rows`` says which rows of the user's graph these
    are; tensors of edges hold the edges into owned rows, in the user's order, or by owned row if that is by target.
    Pairs of nodes, such as ``edge_label_index``, are those whose first node is owned.
    """

    def __init__(self, part: TypedPart, passing: ModelPass, store: Any, node_index: Sequence[str] = ()) -> None:
        """``store`` is a ``HeteroData`` of this part's tensors, as `local_store` gives it; it is marked here."""
        self.shard = part
        self.passing = passing
        passing.part = self
        self.reduction = Reduction(passing.transport, [rows.numel() for rows in part.rows.values()])
        self.bridges: dict[EdgeType, Bridge] = {}
        self.union: Shard
        self.learnt = ""
        self.store = store
        for kind, relation in part.relations.items():
            bridge = Bridge(relation, passing, halo_name(kind), part.rows[kind[2]])
            self.bridges[kind] = bridge
            store[kind].edge_index = Edges.of(relation.edge_index.to(passing.device), bridge)
            if isinstance(x := store[kind[0]].get("x"), Tensor):
                bridge.keep(x)
        cut = cut_number(part.rows, passing.transport)
        self.owners = {
            name: Owner(rows.numel(), part.num_nodes[name], passing, rows=rows, kind=name, cut=cut)
            for name, rows in part.rows.items()
        }
        for name, owner in self.owners.items():
            for key, value in list(store[name].items()):
                if names_nodes(key, value, owner.whole, node_index):
                    store[name][key] = self.translate(value, name)
                elif key != "rows" and not (isinstance(value, Tensor) and value.requires_grad):
                    store[name][key] = rows_of_nodes(value, owner)
        self.cut_pairs()
        for kind in self.bridges:
            self._mark_edges(kind)

    def _mark_edges(self, kind: EdgeType) -> None:
        """Mark the tensors of one edge type that have a row for each of this worker's edges."""
        count, store = self.shard.relations[kind].edges.numel(), self.store[kind]
        owner = Owner(count, self.shard.num_nodes[kind[2]], self.passing, kind=kind, targets=self.owners[kind[2]])
        self.bridges[kind].edge_owner = owner
        paired = pair_names(dict(store.items()))
        for key, value in list(store.items()):
            if type(value) is Tensor and key not in paired and value.shape[:1] == (count,) and not value.requires_grad:
                store[key] = OwnEdges.of(value, owner)

    def learn(self, union: Shard, learnt: str) -> None:
        """Learn the nodes of type ``learnt``, which come first in the shard ``union`` of all nodes together."""
        places = torch.full((union.num_nodes,), -1)
        places[union.rows] = torch.arange(union.num_owned)
        self.union = union
        self.learnt = learnt
        self._places = places[self.shard.rows[learnt]].to(self.passing.device)

    @property
    def task_shard(self) -> Shard:
        """The shard of all nodes together, with the labels and masks of the learnt type."""
        return self.union

    def task_rows(self, out: Any) -> Any:
        """The model's output for the learnt type, as rows of `task_shard`: zeros for nodes of other types."""
        rows = out.get(self.learnt) if isinstance(out, dict) else out
        if not isinstance(rows, Tensor) or rows.shape[:1] != self._places.shape:
            return rows
        return rows.new_zeros(self.union.num_owned, *rows.shape[1:]).index_copy(0, self._places, rows)

    @property
    def num_learnt(self) -> int:
        """The number of nodes, of the whole graph, whose type is learnt; they come first among all nodes."""
        return self.shard.num_nodes[self.learnt]

    def own_rows(self, rows: Tensor) -> Tensor:
        """The rows of the learnt type among those of `task_shard`, marked as this worker's."""
        found: Tensor = OwnRows.of(rows[self._places], self.owners[self.learnt])
        return found

    def __getitem__(self, *kind: Any) -> Any:
        return self.read.__getitem__(*kind)

    @property
    def read(self) -> Any:
        """The ``HeteroData`` that is read; in a pass of a model nothing needs marks, since every call is rehearsed."""
        if not self.passing.inside:
            return self.store
        bare = copy.copy(self.store)
        for store in (*bare.node_stores, *bare.edge_stores):
            for key, value in list(store.items()):
                store[key] = plain(value)
        return bare

    def __getattr__(self, name: str) -> Any:
        refuse_in_pyg()
        store = self.__dict__.get("store")
        if store is not None and (name in ASKED or name.endswith("_dict") or name in store._global_store):
            return getattr(self.read, name)
        raise AttributeError(
            f"this part of the graph has no {name!r}; its tensors are in data[type], and by type in data.x_dict, "
            "data.edge_index_dict and the like"
        )

    @property
    def transport(self) -> Transport:
        """The connection to the other workers."""
        return self.passing.transport

    @property
    def num_nodes(self) -> int:
        """The nodes of this worker, of all types."""
        return sum(rows.numel() for rows in self.shard.rows.values())

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of what a model may be called with: the tensors of one name by type, such as ``x_dict``."""
        return tuple(dict.fromkeys(f"{key}_dict" for store in self.store.stores for key in dict(store.items())))

    def named_input(self, name: str) -> Any:
        """What a model may be called with by ``name``: tensors by type, or the pairs of the one edge type that has any.

        None where there is nothing of that name.
        """
        if name in self.input_names:
            return getattr(self, name)
        found = [self.store[kind][name] for kind, pairs in self.pair_rows if pairs == name]
        return found[0] if len(found) == 1 else None

    def to(self, device: Any, *names: str) -> HeteroShardData:
        """Return the part itself: `halowire.shard` has put it on its device. Another device is refused."""
        wanted, here = torch.device(device), self.passing.device
        if wanted.type != here.type:
            raise InputError(
                f"data.to({str(wanted)!r}): this part lies on {here}, with its connections; choose the device when the "
                f"graph is cut: halowire.shard(data, device={wanted.type!r})"
            )
        return self

    @property
    def num_local_edges(self) -> int:
        """The edges into this worker's rows, of all types."""
        return sum(relation.edges.numel() for relation in self.shard.relations.values())

    @property
    def most_nodes(self) -> int:
        """The number of nodes of the whole graph, of the type that has the most."""
        return max(self.shard.num_nodes.values())

    @property
    def halos(self) -> dict[str, HaloLists]:
        """The rows that are sent and received, by the name of the halo: one for each edge type."""
        return {halo_name(kind): relation for kind, relation in self.shard.relations.items()}

    def exchanges(self, policy: Policy, summing: Collection[str] = ()) -> HaloExchanges:
        """New exchanges of this part's halos under ``policy``; none of its layers is ``summing``."""
        return HaloExchanges(self.halos, self.transport, self.passing.device, policy)

    def __repr__(self) -> str:
        rows = ", ".join(f"{found.numel():,} {name}" for name, found in self.shard.rows.items())
        rank, size = self.shard.rank, self.shard.num_parts
        return f"HeteroShardData(part {rank} of {size}: {rows}, {self.num_local_edges:,} edges)"


def halo_name(kind: EdgeType) -> str:
    """The name of an edge type's halo."""
    return "__".join(kind)


def shard_hetero(
    data: Any, method: str, seed: int, transport: Transport, device: torch.device, node_index: Sequence[str] = ()
) -> HeteroShardData:
    """This worker's part of a ``HeteroData``; rank 0 decides on the owners of all types' nodes together."""

    counts = agreed(lambda: nodes_of(data), transport, "reading of the graph")
    tensors = {f"{key} of {kind!r}": value for kind in (*counts, *data.edge_types) for key, value in data[kind].items()}
    require_same_graph(tensors, sum(counts.values()), transport)

    def decide() -> Tensor:
        edges = edges_of(data)
        if transport.rank:
            return torch.zeros(sum(counts.values()), dtype=torch.int64)
        return torch.cat(list(type_owners(edges, counts, transport.size, method, seed).values()))

    owner = transport.broadcast(agreed(decide, transport, "partitioning"), "broadcast of the owners", SETUP)
    by_type = dict(zip(counts, torch.split(owner, list(counts.values())), strict=True))
    cut = agreed(lambda: _local(data, by_type, transport, device, node_index), transport, "cutting of the graph")
    part, store = cut
    return HeteroShardData(part, ModelPass(transport, device), store, node_index)


def cut_hetero(
    data: Any, owner: Mapping[str, Tensor], transport: Transport, device: torch.device | None = None
) -> HeteroShardData:
    """This worker's part of a ``HeteroData``; ``owner`` has the owner of every node, int64 ``[N]`` by node type."""
    where = device or torch.device("cpu")
    part, store = _local(data, owner, transport, where)
    return HeteroShardData(part, ModelPass(transport, where), store)


def _local(
    data: Any, owner: Mapping[str, Tensor], transport: Transport, device: torch.device, node_index: Sequence[str] = ()
) -> tuple[TypedPart, Any]:
    part = cut_types(edges_of(data), owner, transport.rank, transport.size)
    if device.type != "cpu":
        refuse_crowded(*_shares(data, part), device, transport.rank)
    return part, local_store(data, part, device, node_index)


def _shares(data: Any, part: TypedPart) -> tuple[int, int]:
    """The bytes of this worker's share of what nodes have, and of what edges have and their two ends."""
    nodes = [(data[name], rows.numel(), part.num_nodes[name]) for name, rows in part.rows.items()]
    edges = [
        (data[kind], relation.edges.numel(), data[kind].edge_index.shape[1])
        for kind, relation in part.relations.items()
    ]
    found = [sum(bytes_of(store.values()) * few // max(all_, 1) for store, few, all_ in of) for of in (nodes, edges)]
    return found[0], found[1]


def local_store(data: Any, part: TypedPart, device: torch.device, node_index: Sequence[str] = ()) -> Any:
    """A copy of a ``HeteroData`` with the rows and edges of ``part`` only; ``rows`` of each node type are added.

    Attributes in ``node_index`` are told to name nodes of the type that they stand at. What names nodes, and pairs of
    nodes, stays whole.
    """
    local = copy.copy(data)
    missing = [name for name in node_index if all(name not in data[kind] for kind in data.node_types)]
    if missing:
        raise InputError(f"node_index names {', '.join(missing)}, which no node type of the HeteroData has")
    for name in data.node_types:
        store = local[name]
        count, rows = part.num_nodes[name], part.rows[name]
        for key, value in list(store.items()):
            if not names_nodes(key, value, count, node_index):
                store[key] = _placed(value, count, rows, f"{key} of {name!r}", device)
        store.num_nodes = part.rows[name].numel()
        store.rows = part.rows[name]
    for kind, relation in part.relations.items():
        store = local[kind]
        count = data[kind].edge_index.shape[1]
        paired = pair_names(dict(store.items()))
        for key, value in list(store.items()):
            if key in paired:
                store[key] = value.to(device)
            elif key != "edge_index":
                store[key] = _placed(value, count, relation.edges, f"{key} of {kind!r}", device)
    return local


def rows_of_nodes(value: Any, owner: Owner) -> Any:
    """``value``, marked as the rows of ``owner`` if it has one for each of its nodes."""
    return OwnRows.of(value, owner) if isinstance(value, Tensor) and value.shape[:1] == (owner.owned,) else value


def edges_of(data: Any) -> dict[EdgeType, Tensor]:
    """The edges of a ``HeteroData`` by type, int64 ``[2, E]`` on the CPU; what cannot be cut is refused."""
    if not data.edge_types:
        raise InputError("the HeteroData has no kind of edges; give it at least one with edge_index")
    edges: dict[EdgeType, Tensor] = {}
    counts = nodes_of(data)
    for kind in data.edge_types:
        found = data[kind].get("edge_index")
        if not isinstance(found, Tensor) or found.layout != torch.strided or found.dim() != 2:
            raise InputError(
                f"the edge type {kind!r} has no edge_index [2, E]; undo the ToSparseTensor transform, or remove it"
            )
        ends = found.cpu().long()
        for end, name in zip(ends, (kind[0], kind[2]), strict=True):
            if end.numel() and not 0 <= int(end.min()) <= int(end.max()) < counts[name]:
                raise InputError(
                    f"edges of {kind!r} name nodes {int(end.min())} to {int(end.max())} of {name!r}, which has "
                    f"{counts[name]} nodes; set data[{name!r}].num_nodes, or mend the edges"
                )
        edges[kind] = ends
    return edges


def nodes_of(data: Any) -> dict[str, int]:
    """The number of nodes of every type of a ``HeteroData``."""
    counts = {}
    for name in data.node_types:
        count = data[name].num_nodes
        if count is None:
            raise InputError(f"the number of nodes of {name!r} is unknown; set data[{name!r}].num_nodes")
        counts[name] = int(count)
    return counts


def _placed(value: Any, count: int, rows: Tensor, name: str, device: torch.device) -> Any:
    """The ``rows`` of a tensor with one row for each of ``count`` nodes or edges, on ``device``; else ``value``."""
    if not isinstance(value, Tensor):
        return value
    key = name.partition(" ")[0]
    if key.endswith("edge_label_index"):
        raise InputError(
            f"{name} has shape {list(value.shape)} and type {value.dtype}, expected pairs of nodes, int64 [2, P]; mend "
            "it, or remove it before halowire.shard"
        )
    if key.endswith(("_index", "_idx")):
        raise InputError(
            f"{name} names nodes of the whole graph, which have other numbers on every worker; turn it into a mask of "
            "the nodes, name it in halowire.shard(data, node_index=[...]), or remove it before"
        )
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.dim() and value.shape[0] == count:
        value = value[rows.to(value.device)]
    elif name.split(maxsplit=1)[0] in ("x", "y", "edge_attr", "edge_weight") or name.split(maxsplit=1)[0].endswith(
        "mask"
    ):
        raise InputError(f"{name} has shape {list(value.shape)}, expected one row for each of {count}")
    return value.to(device)
