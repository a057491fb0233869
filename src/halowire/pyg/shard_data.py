"""``halowire.shard`` cuts one worker's part of a graph, under PyG's names; ``shard_links`` adds its pairs of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.graph import Graph, homogeneous, is_hetero, load
from halowire.kernels import Csr
from halowire.launch import join
from halowire.partitioning import Partition, Shard, cut, cut_links, is_shard_folder, owned_edges, partition, read_shard
from halowire.pyg.adjacency import NAMES as SPARSE
from halowire.pyg.adjacency import Adjacency, with_edges
from halowire.pyg.bridge import Bridge
from halowire.pyg.data_part import ShardData
from halowire.pyg.edges import Edges
from halowire.pyg.hetero_data import HeteroShardData, shard_hetero
from halowire.pyg.kept_cuts import KeptCut
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.node_index import names_nodes
from halowire.pyg.own_rows import plain
from halowire.pyg.pairs import pair_names
from halowire.pyg.part_device import bytes_of, part_device, refuse_crowded_together
from halowire.pyg.same_graph import require_same_graph
from halowire.training import Config, Decoder, LinkTask, Situation, agreed, dot_product, hold_out, refuse
from halowire.wire import Transport


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
        return self._data.mean(self._task.values(plain(rows), epoch))

    def metrics(self, rows: Tensor) -> dict[str, float]:
        """The metric as ``train``, ``val`` and ``test``, and further metrics as ``val_...`` and ``test_...``."""
        self._data.reduction.counted([rows.shape[0]], "comparison of the weights")
        return self._task.evaluate(plain(rows), self._data.transport)


def shard(
    data: Any,
    *,
    method: str = "metis",
    seed: int = 0,
    device: str = "auto",
    node_index: Sequence[str] = (),
    like: ShardData | None = None,
    transport: Transport | None = None,
) -> ShardData | HeteroShardData:
    """This worker's part of ``data``: one part per process under torchrun, the whole graph in a single process.

    Graphs with as many nodes, cut one after the other, share one partition where it suits their edges: so rows and
    masks of the training graph fit those of the test graph, and weights with a row for each node serve both.

    Example:
        >>> data = halowire.shard(dataset[0])  # under `torchrun --nproc-per-node 2 script.py`
        >>> model = halowire.distribute(model, data)

    Args:
        data: a PyG ``Data`` or ``HeteroData``, a `Graph`, anything `halowire.load` reads, or a folder of shards.
        method: the partitioner, unless ``data`` is a folder of shards.
        seed: the seed of the partitioner.
        device: ``cpu``, ``cuda`` or ``auto``.
        node_index: names of attributes that hold numbers of nodes and are to be translated into numbers of this
            worker's rows; ``train_idx`` and its like are translated anyway.
        like: a part of a graph with the same nodes; this one is cut in the same way, whatever its edges.
        transport: the connection to the other workers; left out, the process joins them, until it ends.
    """
    transport = transport or join(device)
    place = part_device(device, transport)
    folder = isinstance(data, str | Path) and is_shard_folder(Path(data))
    if like is not None and (folder or is_hetero(data)):
        raise InputError(
            "like= says how a graph of one node type is cut, and is given with a folder of shards or a HeteroData; "
            "leave it out, and call the model on each part by itself"
        )
    if folder:
        part = agreed(lambda: read_shard(data, transport.rank), transport, "reading of the shards")
        if part.num_parts != transport.size:
            raise InputError(f"{data} holds {part.num_parts} shards, but there are {transport.size} workers")
        return of_shard(part, transport, place)
    if is_hetero(data):
        return shard_hetero(data, method, seed, transport, place, node_index)
    tensors, num_nodes = agreed(lambda: tensors_of(data), transport, "reading of the graph")
    require_same_graph(tensors, num_nodes, transport)
    _refuse_missing(node_index, tensors)
    key = (num_nodes, method, seed)
    last = KeptCut.last(key, transport) if like is None else KeptCut.of(like, num_nodes)
    owner = _owners(tensors, num_nodes, method, seed, transport, last) if like is None or last is None else last.owner
    order = last if last is not None and torch.equal(last.owner, owner) else None
    found = cut_data(tensors, owner, transport, place, node_index, order)
    (order or KeptCut.made(owner, found.rows, tensors["edge_index"], transport)).keep(key, transport)
    return found


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
    transport = transport or join(device)
    place = part_device(device, transport)
    tensors, num_nodes = agreed(lambda: tensors_of(data), transport, "reading of the graph")
    require_same_graph(tensors, num_nodes, transport)
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


def _owners(
    tensors: dict[str, Any], num_nodes: int, method: str, seed: int, transport: Transport, last: KeptCut | None = None
) -> Tensor:
    """The owner of every node, as rank 0 decides: those of the ``last`` cut where they serve these edges."""

    def decide() -> Tensor:
        if transport.rank:
            return torch.zeros(num_nodes, dtype=torch.int64)
        if last is not None and last.serves(tensors["edge_index"]):
            return last.owner.clone()
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
    names: Any = getattr(data, "keys", ())
    keys = names() if callable(names) else names
    tensors = with_edges({key: data[key] for key in keys if key not in ("num_nodes", "ptr")})
    if tensors.get("edge_index") is None:
        raise InputError(f"got a {type(data).__name__}, expected a torch_geometric.data.Data with edge_index")
    return tensors, int(data.num_nodes)


def cut_data(
    tensors: Mapping[str, Any],
    owner: Tensor,
    transport: Transport,
    device: torch.device | None = None,
    node_index: Sequence[str] = (),
    like: KeptCut | None = None,
) -> ShardData:
    """This worker's part of a graph whose tensors have PyG's names; ``owner`` ``[N]`` is the owner of every node.

    Args:
        tensors: ``edge_index`` ``[2, E]``, node tensors ``[N, ...]``, edge tensors ``[E, ...]``, anything else.
            ``x``, ``y``, ``pos`` and ``n_id`` are node tensors, names that begin with ``edge_`` edge tensors; other
            tensors are recognised by their first extent: ``N`` rows are nodes, else ``E`` rows are edges.
        owner: the owner of every node.
        transport: the connection to the other workers.
        device: where the part is put.
        node_index: names of further tensors that hold numbers of nodes.
        like: an earlier cut with the same owners, whose order the rows have.
    """
    graph = Graph.from_edge_index(tensors["edge_index"].cpu(), owner.numel())
    shard = cut(graph, Partition(owner, transport.size))[transport.rank]
    shard = shard if like is None else like.ordered(shard)
    parts = local_tensors(tensors, owner, shard, node_index)
    return place_data(shard, parts, transport, device or torch.device("cpu"), node_index)


def local_tensors(
    tensors: Mapping[str, Any], owner: Tensor, shard: Shard, node_index: Sequence[str] = ()
) -> dict[str, Any]:
    """The part of ``tensors`` that belongs to ``shard``; ``edge_index`` numbers owned rows first, then the halo's.

    ``edge_rows`` are the edges' numbers in the whole graph.
    """
    edge_index, num_nodes = tensors["edge_index"].cpu(), owner.numel()
    place = torch.full((num_nodes,), -1)
    held = torch.cat([shard.rows, shard.halo_ids])
    place[held] = torch.arange(held.numel())
    mine = owned_edges(edge_index, owner, shard.rank, place)
    kinds = tensor_kinds(tensors, num_nodes, edge_index.shape[1], node_index)
    chosen = {"node": shard.rows, "edge": mine}
    parts = {
        name: _pick(value, chosen[kinds[name]]) if name in kinds else value
        for name, value in tensors.items()
        if name != "edge_index"
    }
    few = torch.int32 if edge_index.shape[1] < 2**31 else torch.int64
    return {**parts, "edge_index": place[edge_index[:, mine].long()], "edge_rows": mine.to(few)}


def only_edges(tensors: Mapping[str, Any], num_nodes: int, kept: Tensor) -> dict[str, Any]:
    """``tensors`` of a graph with only the ``kept`` edges (bool ``[E]``); node tensors stay as they are."""
    edge_index = tensors["edge_index"]
    kinds = tensor_kinds(tensors, num_nodes, edge_index.shape[1])
    where = kept.nonzero()[:, 0]
    edges = {name: _pick(value, where) for name, value in tensors.items() if kinds.get(name) == "edge"}
    return {**tensors, **edges, "edge_index": edge_index[:, kept.to(edge_index.device)]}


def place_data(
    shard: Shard,
    tensors: Mapping[str, Any],
    transport: Transport,
    device: torch.device,
    node_index: Sequence[str] = (),
) -> ShardData:
    """The part of a graph made of ``tensors``, as `local_tensors` gives them, connected to the other workers."""
    if device.type != "cpu":
        edges = bytes_of(value for name, value in tensors.items() if name.startswith("edge_"))
        refuse_crowded_together(bytes_of(tensors.values()) - edges, edges, device, transport)
    bridge = Bridge(shard, ModelPass(transport, device))
    edge_rows = tensors.get("edge_rows")
    placed = {
        name: value.to(device) if isinstance(value, Tensor) else value
        for name, value in tensors.items()
        if name != "edge_rows"
    }
    data = ShardData(shard, bridge, Edges.of(placed.pop("edge_index"), bridge), placed)
    data.number_edges(edge_rows)
    for name, value in placed.items():
        if names_nodes(name, value, shard.num_nodes, node_index):
            data[name] = data.translate(value)
    for name in SPARSE.keys() & placed.keys():
        data[name] = Adjacency(data.edge_index, placed[name], SPARSE[name])
    if pair_names(placed):
        data.cut_pairs()
    return data


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


def tensor_kinds(
    tensors: Mapping[str, Any], num_nodes: int, num_edges: int, node_index: Sequence[str] = ()
) -> dict[str, str]:
    """``node`` or ``edge``, by name, for every tensor that has one row for each node or edge."""
    kinds = {}
    pairs = pair_names(tensors)
    for name, value in tensors.items():
        if name == "edge_index" or name in pairs or not isinstance(value, Tensor) or value.dim() == 0:
            continue
        if names_nodes(name, value, num_nodes, node_index):
            continue
        if name.startswith("edge_") or name in SPARSE:
            likely, extent = "edge", num_edges
        elif name in ("x", "y", "pos", "n_id"):
            likely, extent = "node", num_nodes
        else:
            likely, extent = ("edge", num_edges) if value.shape[0] == num_edges != num_nodes else ("node", num_nodes)
        if value.shape[0] == extent:
            kinds[name] = likely
        elif name.startswith("edge_") and value.dim() == 2 and value.shape[0] == 2 and value.dtype == torch.int64:
            raise InputError(
                f"{name} {list(value.shape)} looks like a second list of edges, but messages pass along edge_index "
                "alone: put all edges into edge_index, with an edge_type [E] that tells them apart, and part them in "
                "forward, edge_index[:, edge_type == 1]; a list of pairs to score is named edge_label_index"
            )
        elif name in ("x", "y") or name.startswith("edge_"):
            raise InputError(f"{name} has {value.shape[0]} rows, expected one for each of the {extent} {likely}s")
    return kinds


def _refuse_missing(node_index: Sequence[str], tensors: Mapping[str, Any]) -> None:
    missing = [name for name in node_index if name not in tensors]
    if missing:
        raise InputError(
            f"node_index names {', '.join(missing)}, which the graph does not have; it has {', '.join(tensors)}"
        )


def _pick(value: Tensor, rows: Tensor) -> Tensor:
    if value.layout != torch.strided:
        value = value.to_dense()
    return value[rows.to(value.device)]
