"""``halowire.shard`` cuts one worker's part of a graph, under PyG's names; ``shard_links`` adds its pairs of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.graph import Graph, homogeneous, is_hetero, load
from halowire.kernels import Csr
from halowire.launch import Place, agreed, choose_device, join
from halowire.partitioning import HaloLists, Partition, Shard, cut, cut_links, is_shard_folder, partition, read_shard
from halowire.pyg.bridge import Bridge
from halowire.pyg.edges import Edges
from halowire.pyg.hetero_data import HeteroShardData, shard_hetero
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.whole_loss import Reduction, WholeLoss, WholeMean
from halowire.training import Config, Decoder, LinkTask, Situation, dot_product, hold_out, refuse
from halowire.wire import HaloExchanges, Policy, Transport


class ShardData:
    """One worker's part of a graph under PyG's names: ``x``, ``edge_index``, ``y``, masks, edge tensors.

    Node tensors hold the ``n`` owned rows; edge tensors hold the edges into these rows, in the user's order.
    ``rows`` are the owned rows' places in the user's graph, ``num_nodes`` is ``n``, ``keys`` are the tensors' names.
    """

    def __init__(self, shard: Shard, bridge: Bridge, edge_index: Tensor, tensors: Mapping[str, Any]) -> None:
        self.shard = shard
        self.bridge = bridge
        self.passing = bridge.passing
        self.reduction = Reduction(bridge.transport)
        self.edge_index = edge_index
        self.rows = shard.rows
        self.num_nodes = shard.num_owned
        self.keys = ("edge_index", *tensors)
        for name, value in tensors.items():
            setattr(self, name, value)
        if isinstance(x := tensors.get("x"), Tensor):
            bridge.keep(x)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"this part of the graph has no {name!r}; it has {', '.join(self.__dict__.get('keys', ()))}"
        )

    def mean(self, values: Tensor, penalty: Tensor | float = 0.0) -> Tensor:
        """The mean of all workers' ``values``, one or more for each of this worker's rows: the loss of the whole graph.

        The mean is the same on every worker, and after ``backward`` so are the weights' gradients. The mean may be
        scaled, and added to other such means; nothing else may be added to it.

        Args:
            values: the values of this worker's rows, in any shape.
            penalty: a number that depends on weights alone, so that all workers have the same; it counts once.
        """
        out: Tensor = WholeMean.apply(values, self.reduction)  # type: ignore[no-untyped-call]
        if isinstance(penalty, Tensor) and penalty.requires_grad:
            if penalty.dim():
                raise InputError(f"the penalty has shape {list(penalty.shape)}; give one number, such as its sum")
            penalty = WholeMean.apply(penalty, self.reduction, True)  # type: ignore[no-untyped-call]
        return WholeLoss.of(out + penalty, self.reduction)

    @property
    def transport(self) -> Transport:
        """The connection to the other workers."""
        return self.passing.transport

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the tensors that a model may be called with."""
        return tuple(self.keys)

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
        """The rows of the model's output among those of `task_shard`: all of them."""
        return rows

    @property
    def num_local_edges(self) -> int:
        """The edges into this worker's rows."""
        return int(self.edge_index.shape[1])

    @property
    def most_nodes(self) -> int:
        """The number of nodes of the whole graph."""
        return self.shard.num_nodes

    @property
    def halos(self) -> dict[str, HaloLists]:
        """The rows that are sent and received, by the name of the halo: a graph of one edge type has one."""
        return {self.bridge.name: self.shard}

    def exchanges(self, policy: Policy) -> HaloExchanges:
        """New exchanges of this part's halos under ``policy``."""
        return HaloExchanges(self.halos, self.transport, self.passing.device, policy)

    def __repr__(self) -> str:
        rank, size = self.shard.rank, self.shard.num_parts
        return f"ShardData(part {rank} of {size}: {self.num_nodes:,} nodes, {self.edge_index.shape[1]:,} edges)"


class Links:
    """The pairs of nodes of one worker; gives the loss and the metrics of the pairs of all workers."""

    def __init__(self, task: LinkTask, data: ShardData) -> None:
        self._task = task
        self._data = data

    def loss(self, rows: Tensor, epoch: int) -> Tensor:
        """The cross entropy of all workers' training pairs and of negatives drawn for this ``epoch``.

        ``rows`` ``[n, k]`` is the model's output; the value is the same on every worker, and after ``backward`` so are
        the gradients of the model and of the decoder.
        """
        return self._data.mean(self._task.values(rows, epoch))

    def metrics(self, rows: Tensor) -> dict[str, float]:
        """The metric as ``train``, ``val`` and ``test``, and further metrics as ``val_...`` and ``test_...``."""
        return self._task.evaluate(rows, self._data.transport)


def shard(
    data: Any, *, method: str = "metis", seed: int = 0, device: str = "auto", transport: Transport | None = None
) -> ShardData | HeteroShardData:
    """This worker's part of ``data``: one part per process under torchrun, the whole graph in a single process.

    Example:
        >>> data = halowire.shard(dataset[0])  # under `torchrun --nproc-per-node 2 script.py`
        >>> model = halowire.distribute(model, data)

    Args:
        data: a PyG ``Data`` or ``HeteroData``, a `Graph`, anything `halowire.load` reads, or a folder of shards.
        method: the partitioner, unless ``data`` is a folder of shards.
        seed: the seed of the partitioner.
        device: ``cpu``, ``cuda`` or ``auto``.
        transport: the connection to the other workers; left out, the process joins them, until it ends.
    """
    place = choose_device(device, Place.here())
    transport = transport or join(place)
    if isinstance(data, str | Path) and is_shard_folder(Path(data)):
        part = agreed(lambda: read_shard(data, transport.rank), transport, "reading of the shards")
        if part.num_parts != transport.size:
            raise InputError(f"{data} holds {part.num_parts} shards, but there are {transport.size} workers")
        return of_shard(part, transport, place)
    if is_hetero(data):
        return shard_hetero(data, method, seed, transport, place)
    tensors, num_nodes = agreed(lambda: tensors_of(data), transport, "reading of the graph")
    return cut_data(tensors, _owners(tensors, num_nodes, method, seed, transport), transport, place)


def shard_links(
    data: Any,
    *,
    decoder: Decoder | None = None,
    settings: Mapping[str, Any] | None = None,
    method: str = "metis",
    device: str = "auto",
    transport: Transport | None = None,
) -> tuple[ShardData, Links]:
    """This worker's part of ``data`` without the held-out edges, and its pairs; see `halowire.shard`.

    Example:
        >>> data, links = halowire.shard_links(dataset[0])
        >>> model = halowire.distribute(model, data)
        >>> loss = links.loss(model(data.x, data.edge_index), epoch)

    Args:
        data: a PyG ``Data``, a `Graph`, or anything `halowire.load` reads.
        decoder: ``decoder(sources, targets)`` gives a score for each pair of rows. The weights of a module are made
            the same on all workers; give them to the optimizer. By default: the dot product of the two rows.
        settings: overrides of ``task.*`` and ``seed``, which is the seed of the partitioner too.
        method: the partitioner.
        device: ``cpu``, ``cuda`` or ``auto``.
        transport: the connection to the other workers; left out, the process joins them, until it ends.
    """
    config = Config().replace({**(settings or {}), "task.kind": "link"})
    refuse(config, Situation(caller="pairs", given=tuple(settings or {})))
    place = choose_device(device, Place.here())
    transport = transport or join(place)
    tensors, num_nodes = agreed(lambda: tensors_of(data), transport, "reading of the graph")
    split = agreed(lambda: hold_out(tensors["edge_index"].cpu(), num_nodes, config), transport, "split of the edges")
    tensors = only_edges(tensors, num_nodes, split.message)
    owner = _owners(tensors, num_nodes, method, config.seed, transport)
    part = cut_data(tensors, owner, transport, place)
    # A part orders its rows in its own way, which other workers must know to ask for rows.
    row = torch.zeros(num_nodes, dtype=torch.int32)
    row[part.rows] = torch.arange(part.num_nodes, dtype=torch.int32)
    transport.all_reduce(row, "places of all nodes", SETUP)
    links = cut_links(split, owner.int(), row, transport.rank)
    if isinstance(decoder, nn.Module):
        decoder.to(place)
        part.reduction.share(decoder, "broadcast of the decoder")
        part.reduction.add(decoder.parameters())
    return part, Links(LinkTask(links, part.shard, config, transport, place, decoder or dot_product), part)


def _owners(tensors: dict[str, Any], num_nodes: int, method: str, seed: int, transport: Transport) -> Tensor:
    """The owner of every node, as rank 0 decides."""

    def decide() -> Tensor:
        if transport.rank:
            return torch.zeros(num_nodes, dtype=torch.int64)
        graph = Graph.from_edge_index(tensors["edge_index"], num_nodes)
        return partition(graph, transport.size, method, seed).owner

    owner = agreed(decide, transport, "partitioning")
    return transport.broadcast(owner.contiguous(), "broadcast of the owners", SETUP)


def tensors_of(data: Any, regression: bool = False) -> tuple[dict[str, Any], int]:
    """The tensors of a graph by PyG's names, and its number of nodes; ``regression``: the labels are values."""
    if is_hetero(data):
        data = homogeneous(data)
    if isinstance(data, str | Path | Graph):
        graph = load(data, regression=regression)
        weight = {} if graph.adj.weight is None else {"edge_weight": graph.adj.weight}
        tensors = {"edge_index": graph.edge_index(), **node_tensors(graph), **weight, **graph.edge_tensors}
        return tensors, graph.num_nodes
    if getattr(data, "edge_index", None) is None:
        raise InputError(f"got a {type(data).__name__}, expected a torch_geometric.data.Data with edge_index")
    keys = data.keys() if callable(data.keys) else data.keys
    return {key: data[key] for key in keys if key not in ("num_nodes", "ptr")}, int(data.num_nodes)


def cut_data(
    tensors: Mapping[str, Any], owner: Tensor, transport: Transport, device: torch.device | None = None
) -> ShardData:
    """This worker's part of a graph whose tensors have PyG's names; ``owner`` ``[N]`` is the owner of every node.

    Args:
        tensors: ``edge_index`` ``[2, E]``, node tensors ``[N, ...]``, edge tensors ``[E, ...]``, anything else.
            ``x``, ``y`` and names that end in ``mask`` are node tensors, names that begin with ``edge_`` edge tensors;
            other tensors are recognised by their first extent: ``N`` rows are nodes, else ``E`` rows are edges.
        owner: the owner of every node.
        transport: the connection to the other workers.
        device: where the part is put.
    """
    graph = Graph.from_edge_index(tensors["edge_index"].cpu(), owner.numel())
    shard = cut(graph, Partition(owner, transport.size))[transport.rank]
    return place_data(shard, local_tensors(tensors, owner, shard), transport, device or torch.device("cpu"))


def local_tensors(tensors: Mapping[str, Any], owner: Tensor, shard: Shard) -> dict[str, Any]:
    """The part of ``tensors`` that belongs to ``shard``; ``edge_index`` numbers owned rows first, then the halo's."""
    edge_index, num_nodes = tensors["edge_index"].cpu(), owner.numel()
    place = torch.full((num_nodes,), -1)
    held = torch.cat([shard.rows, shard.halo_ids])
    place[held] = torch.arange(held.numel())
    mine = (owner[edge_index[1]] == shard.rank).nonzero()[:, 0]
    kinds = tensor_kinds(tensors, num_nodes, edge_index.shape[1])
    chosen = {"node": shard.rows, "edge": mine}
    parts = {
        name: _pick(value, chosen[kinds[name]]) if name in kinds else value
        for name, value in tensors.items()
        if name != "edge_index"
    }
    return {"edge_index": place[edge_index[:, mine].long()], **parts}


def only_edges(tensors: Mapping[str, Any], num_nodes: int, kept: Tensor) -> dict[str, Any]:
    """``tensors`` of a graph with only the ``kept`` edges (bool ``[E]``); node tensors stay as they are."""
    edge_index = tensors["edge_index"]
    kinds = tensor_kinds(tensors, num_nodes, edge_index.shape[1])
    where = kept.nonzero()[:, 0]
    edges = {name: _pick(value, where) for name, value in tensors.items() if kinds.get(name) == "edge"}
    return {**tensors, **edges, "edge_index": edge_index[:, kept.to(edge_index.device)]}


def place_data(shard: Shard, tensors: Mapping[str, Any], transport: Transport, device: torch.device) -> ShardData:
    """The part of a graph made of ``tensors``, as `local_tensors` gives them, connected to the other workers."""
    bridge = Bridge(shard, ModelPass(transport, device))
    placed = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in tensors.items()}
    edges = placed.pop("edge_index")
    return ShardData(shard, bridge, Edges.of(edges, bridge), placed)


def of_shard(shard: Shard, transport: Transport, device: torch.device) -> ShardData:
    """A shard, such as one read from disk, under PyG's names; its edges are sorted by destination."""
    pieces = [
        torch.stack([matrix.indices.long() + first, matrix.row_index()])
        for matrix, first in ((shard.inner, 0), (shard.halo, shard.num_owned))
    ]
    edges = torch.cat(pieces, 1)
    order = torch.argsort(edges[1], stable=True)
    tensors = {"edge_index": edges[:, order], **node_tensors(shard)}
    if shard.inner.weight is not None and shard.halo.weight is not None:
        tensors["edge_weight"] = torch.cat([shard.inner.weight, shard.halo.weight])[order]
    tensors |= {name: value[order] for name, value in shard.edge_tensors.items()}
    return place_data(shard, tensors, transport, device)


def node_tensors(source: Graph | Shard) -> dict[str, Tensor]:
    """The tensors among ``x``, ``y`` and the masks that ``source`` has; sparse features are made dense."""
    names = ("x", "y", "train_mask", "val_mask", "test_mask")
    found = {name: value for name in names if (value := getattr(source, name)) is not None}
    return {name: value.to_dense() if isinstance(value, Csr) else value for name, value in found.items()}


def tensor_kinds(tensors: Mapping[str, Any], num_nodes: int, num_edges: int) -> dict[str, str]:
    """``node`` or ``edge``, by name, for every tensor that has one row for each node or edge."""
    kinds = {}
    for name, value in tensors.items():
        if name == "edge_index" or not isinstance(value, Tensor) or value.dim() == 0:
            continue
        if name in ("x", "y", "pos", "n_id") or name.endswith("mask"):
            likely, extent = "node", num_nodes
        elif name.startswith("edge_"):
            likely, extent = "edge", num_edges
        else:
            likely, extent = ("edge", num_edges) if value.shape[0] == num_edges != num_nodes else ("node", num_nodes)
        if value.shape[0] == extent:
            kinds[name] = likely
        elif name in ("x", "y") or name.startswith("edge_"):
            raise InputError(f"{name} has {value.shape[0]} rows, expected one for each of the {extent} {likely}s")
    return kinds


def _pick(value: Tensor, rows: Tensor) -> Tensor:
    if value.layout != torch.strided:
        value = value.to_dense()
    return value[rows.to(value.device)]
