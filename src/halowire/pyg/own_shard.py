"""``halowire.shard`` and ``halowire.shard_links``: this worker's part of a graph, for a loop of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.graph import Graph, homogeneous, is_hetero, load
from halowire.launch import Place, agreed, choose_device, join
from halowire.partitioning import cut_links, is_shard_folder, partition, read_shard
from halowire.pyg.shard_data import ShardData, cut_data, node_tensors, of_shard, only_edges
from halowire.training import Config, Decoder, LinkTask, Situation, dot_product, hold_out, refuse
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
    tensors, num_nodes = agreed(lambda: tensors_of(data), transport, "reading of the graph")
    return cut_data(tensors, owners(tensors, num_nodes, method, seed, transport), transport, place)


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
        decoder: ``decoder(sources, targets)`` with a score for each pair of rows; a module's weights are shared, and
            are the optimizer's to step. Left out: their dot product.
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
    owner = owners(tensors, num_nodes, method, config.seed, transport)
    part = cut_data(tensors, owner, transport, place)
    # Rows of a part are in an order of their own, which the others must know to ask for them.
    row = torch.zeros(num_nodes, dtype=torch.int32)
    row[part.rows] = torch.arange(part.num_nodes, dtype=torch.int32)
    transport.all_reduce(row, "places of all nodes", SETUP)
    links = cut_links(split, owner.int(), row, transport.rank)
    if isinstance(decoder, nn.Module):
        decoder.to(place)
        part.reduction.share(decoder, "broadcast of the decoder")
    return part, Links(LinkTask(links, part.shard, config, transport, place, decoder or dot_product), part)


class Links:
    """The pairs of nodes of one worker, which gives their loss and their metrics over all workers."""

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
    tensors = node_tensors(graph)
    if graph.adj.weight is not None:
        tensors["edge_weight"] = graph.adj.weight
    return {"edge_index": graph.edge_index(), **tensors, **graph.edge_tensors}, graph.num_nodes
