"""``halowire.shard_links``: this worker's part of a graph to predict links on, in a loop of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from halowire.events import SETUP
from halowire.launch import Place, agreed, choose_device, join
from halowire.partitioning import cut_links
from halowire.pyg.own_shard import owners, tensors_of
from halowire.pyg.shard_data import ShardData, cut_data, only_edges
from halowire.training.config import Config
from halowire.training.link_task import Decoder, LinkTask, dot_product
from halowire.training.rules import refuse
from halowire.training.situation import Situation
from halowire.training.source import hold_out
from halowire.wire import Transport


class Links:
    """The pairs of one worker: their loss and their metrics over all workers."""

    def __init__(self, task: LinkTask, data: ShardData) -> None:
        self._task, self._data = task, data

    def loss(self, rows: Tensor, epoch: int) -> Tensor:
        """The cross entropy of all workers' training pairs and of negatives drawn for this ``epoch``.

        ``rows`` ``[n, k]`` is the model's output; the value is the same on every worker, and after ``backward`` so are
        the gradients of the model and of the decoder.
        """
        return self._data.mean(self._task.values(rows, epoch))

    def metrics(self, rows: Tensor) -> dict[str, float]:
        """``train``, ``val`` and ``test`` of the metric, and the others under ``val_...`` and ``test_...``."""
        return self._task.evaluate(rows, self._data.transport)


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
        settings: overrides of ``task.*`` and ``seed``.
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
        with torch.no_grad():
            for value in (*decoder.parameters(), *decoder.buffers()):
                value.copy_(transport.broadcast(value.detach().clone(), "broadcast of the decoder", SETUP))
        part.reduction.add(list(decoder.parameters()))
    return part, Links(LinkTask(links, part.shard, config, transport, place, decoder or dot_product), part)
