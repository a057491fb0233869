"""``halowire.shard``: this worker's part of a graph, under the names that PyG uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.graph import Graph, homogeneous, is_hetero, load
from halowire.kernels import Csr
from halowire.launch import Place, agreed, choose_device, join
from halowire.partitioning import is_shard_folder, partition, read_shard
from halowire.pyg.shard_data import ShardData, cut_data, of_shard
from halowire.wire import Transport


def shard(
    data: Any, *, method: str = "metis", seed: int = 0, device: str = "auto", transport: Transport | None = None
) -> ShardData:
    """This worker's part of ``data``; under torchrun one part per process, alone the whole graph.

    Example:
        >>> data = halowire.shard(dataset[0])  # under `torchrun --nproc-per-node 2 script.py`
        >>> model = halowire.distribute(model, data)

    Args:
        data: a PyG ``Data``, a `Graph`, anything `halowire.load` reads, or a folder of shards.
        method: the partitioner, where there are no shards yet.
        seed: its seed.
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
    tensors, num_nodes = agreed(lambda: tensors_of(data), transport, "reading of the graph")
    return cut_data(tensors, owners(tensors, num_nodes, method, seed, transport), transport, place)


def owners(tensors: dict[str, Any], num_nodes: int, method: str, seed: int, transport: Transport) -> Tensor:
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
        return _of_graph(load(data, regression=regression))
    if getattr(data, "edge_index", None) is None:
        raise InputError(f"got a {type(data).__name__}, expected a torch_geometric.data.Data with edge_index")
    keys = data.keys() if callable(data.keys) else data.keys
    return {key: data[key] for key in keys if key not in ("num_nodes", "ptr")}, int(data.num_nodes)


def _of_graph(graph: Graph) -> tuple[dict[str, Any], int]:
    names = ("y", "train_mask", "val_mask", "test_mask")
    tensors = {name: value for name in names if (value := getattr(graph, name)) is not None}
    if graph.x is not None:
        tensors["x"] = graph.x.to_dense() if isinstance(graph.x, Csr) else graph.x
    if graph.adj.weight is not None:
        tensors["edge_weight"] = graph.adj.weight
    return {"edge_index": graph.edge_index(), **tensors, **graph.edge_tensors}, graph.num_nodes
