"""``fit`` on a ``HeteroData``: one of its node types is learnt, and its rows come first among all nodes.

The graph on disk, whose shards say who owns what, is that of all nodes together, type after type, the learnt type
first; its labels and masks are those of the learnt type, and no other node has any. So the training loop, the metrics,
checkpoints and predictions are those of any graph; what the model sees is the `HeteroShardData` of the same owners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import Graph, check
from halowire.partitioning import Shard, TypedPart, cut_types, union_edges
from halowire.pyg.hetero_data import HeteroShardData, edges_of, local_store, nodes_of
from halowire.pyg.model_pass import ModelPass
from halowire.wire import Transport

LABELS = ("y", "train_mask", "val_mask", "test_mask")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class TypedTensors:
    """A ``HeteroData`` whose nodes of the type ``learnt`` are learnt; ``counts`` has the nodes by type, it first."""

    data: Any
    learnt: str
    counts: dict[str, int]

    @staticmethod
    def of(data: Any) -> TypedTensors:
        """Read ``data``; exactly one of its node types must have labels and masks."""
        labelled = [name for name in data.node_types if "train_mask" in data[name]]
        if len(labelled) != 1:
            raise InputError(
                f"fit learns one node type of a HeteroData, but {', '.join(labelled) or 'none'} has a train_mask; give "
                "y, train_mask, val_mask and test_mask to exactly one type"
            )
        counts = nodes_of(data)
        learnt = labelled[0]
        return TypedTensors(data, learnt, {learnt: counts[learnt]} | counts)

    @property
    def names(self) -> tuple[str, ...]:
        """What a model can be called with: ``x_dict``, ``edge_index_dict`` and the like."""
        return tuple(dict.fromkeys(f"{key}_dict" for store in self.data.stores for key, _ in store.items()))

    def graph(self, regression: bool) -> Graph:
        """All nodes together, with the labels and masks of the learnt type."""
        store, others = self.data[self.learnt], sum(self.counts.values()) - self.counts[self.learnt]
        given: dict[str, Any] = {name: _padded(store[name].cpu(), others) for name in LABELS if name in store}
        edges = union_edges(edges_of(self.data), self.counts)
        return check(Graph.from_edge_index(edges, sum(self.counts.values()), **given, regression=regression))

    def parts(self, shards: list[Shard]) -> list[TypedLocal]:
        """Every worker's part, by the owners that the ``shards`` of all nodes have."""
        owner = torch.empty(sum(self.counts.values()), dtype=torch.int64)
        for shard in shards:
            owner[shard.rows] = shard.rank
        by_type = dict(zip(self.counts, torch.split(owner, list(self.counts.values())), strict=True))
        edges = edges_of(self.data)
        found = (cut_types(edges, by_type, shard.rank, len(shards)) for shard in shards)
        return [TypedLocal(part, local_store(self.data, part, CPU), self.learnt) for part in found]


@dataclass(frozen=True)
class TypedLocal:
    """One worker's part of a ``HeteroData``, whose tensors are in ``store``; nodes of type ``learnt`` are learnt."""

    part: TypedPart
    store: Any
    learnt: str

    def placed(self, shard: Shard, transport: Transport, device: torch.device) -> HeteroShardData:
        """The part on ``device``, joined to the other workers; ``shard`` is that of all nodes together."""
        data = HeteroShardData(self.part, ModelPass(transport, device), self.store.to(device))
        data.learn(shard, self.learnt)
        return data


def _padded(values: Tensor, others: int) -> Tensor:
    """Labels or a mask of the learnt type, with rows for nodes of ``others``: no label, no part of a mask."""
    blank = 0 if values.dim() > 1 or values.dtype == torch.bool else -1
    return torch.cat([values, values.new_full((others, *values.shape[1:]), blank)])
