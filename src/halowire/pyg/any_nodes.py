"""Rows of any nodes of the graph, named by their numbers: they are read as the rows of an edge's source are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.partitioning import NamedHalo, Shard
from halowire.pyg.bridge import Bridge
from halowire.pyg.edges import Edges
from halowire.pyg.typed_rows import ExtendTyped, SumTyped
from halowire.wire import refuse_outside, sent_over


class DrawnBridge(Bridge):
    """A bridge to the rows of any nodes. They travel exactly, whatever the recipe, also outside of a model's pass."""

    drawn = True

    def __init__(self, halo: NamedHalo, bridge: Bridge) -> None:
        self.shard = halo
        self.passing = bridge.passing
        self.name = bridge.name
        self.num_owned = halo.num_owned
        self.num_halo = halo.num_halo
        self.num_targets = halo.num_owned

    def extend(self, values: Tensor, dim: int) -> Tensor:
        """``values`` with the rows of the halo appended along ``dim``."""
        rows = values.movedim(dim, 0)
        flat = rows.reshape(rows.shape[0], -1) if rows.numel() else rows.reshape(rows.shape[0], 0)
        out: Tensor = ExtendTyped.apply(flat, self.shard, self.transport)  # type: ignore[no-untyped-call]
        return out.view(-1, *rows.shape[1:]).movedim(0, dim)

    def collect(self, parts: Tensor, dim: int) -> Tensor:
        """Turn partial sums of owned and halo rows into complete sums of owned rows."""
        rows = parts.movedim(dim, 0)
        flat = rows.reshape(rows.shape[0], -1) if rows.numel() else rows.reshape(rows.shape[0], 0)
        out: Tensor = SumTyped.apply(flat, self.shard, self.transport)  # type: ignore[no-untyped-call]
        return out.view(-1, *rows.shape[1:]).movedim(0, dim)


@dataclass(frozen=True, eq=False)
class Directory:
    """Where every node of a graph is: int64 ``[N]`` each, its ``owner`` and its ``place`` among the owner's rows.

    ``bridge`` joins this worker to the others, ``rows`` are the numbers of its own nodes.
    """

    owner: Tensor
    place: Tensor
    rows: Tensor
    bridge: Bridge

    @staticmethod
    def of(bridge: Any) -> Directory:
        """The directory of the part that ``bridge`` joins; at its first use all workers agree on it together."""
        if not (isinstance(bridge, Bridge) and isinstance(bridge.shard, Shard)):
            raise InputError(
                "halowire.Random draws for graphs of one node type; draw what you need before the graph is cut"
            )
        kept = vars(bridge).get("_directory")
        if kept is None:
            kept = vars(bridge)["_directory"] = Directory._agreed(bridge)
        found: Directory = kept
        return found

    @staticmethod
    def _agreed(bridge: Bridge) -> Directory:
        shard, transport = bridge.shard, bridge.transport
        assert isinstance(shard, Shard)
        both = torch.zeros(2, shard.num_nodes, dtype=torch.int64)
        both[0, shard.rows] = transport.rank
        both[1, shard.rows] = torch.arange(shard.num_owned)
        transport.all_reduce(both, "places of all nodes", account=None)
        return Directory(both[0], both[1], shard.rows, bridge)

    def marked(self, nodes: Tensor, device: torch.device) -> Tensor:
        """``nodes``, numbers in the whole graph in any shape, as an index on ``device`` to read rows of nodes by.

        All workers call this together, each with nodes of its own: each tells the owners which of their rows it needs.
        """
        num_nodes, transport = self.owner.numel(), self.bridge.transport
        asked = nodes.reshape(-1).cpu()  # the one time that the host waits for a device
        if asked.numel() and not 0 <= int(asked.min()) <= int(asked.max()) < num_nodes:
            raise InputError(
                f"nodes are named by numbers from {int(asked.min())} to {int(asked.max())}; give numbers of the whole "
                f"graph, from 0 to {num_nodes - 1}"
            )
        keys = self.owner[asked] * num_nodes + asked  # ascending by owner, then by number
        here = self.owner[asked] == transport.rank
        wanted = torch.unique(keys[~here])
        halo = self._halo(wanted % num_nodes)
        places = torch.where(here, self.place[asked], torch.searchsorted(wanted, keys) + halo.num_owned)
        return Edges.of(sent_over(places.view(nodes.shape), device), DrawnBridge(halo, self.bridge), (True,))

    def named_rows(self, nodes: Tensor) -> Tensor:
        """Those of this worker's rows that some worker names by its ``nodes``, numbers in the whole graph; ascending.

        All workers call this together, each with nodes of its own.
        """
        asked = torch.unique(nodes.as_subclass(Tensor).cpu())
        here = self.owner[asked] == self.bridge.transport.rank
        others = asked[~here]
        halo = self._halo(others[torch.argsort(self.owner[others], stable=True)])
        rows: Tensor = torch.unique(torch.cat([self.place[asked[here]], halo.send_index]))
        return rows

    def _halo(self, nodes: Tensor) -> NamedHalo:
        """Tell the owners of ``nodes`` that this worker needs their rows, and hear which of its rows others need."""
        shard, transport = self.bridge.shard, self.bridge.transport
        wanted = torch.bincount(self.owner[nodes], minlength=transport.size).tolist()
        asked = transport.swap_counts(wanted, "counts of the named nodes")
        send_index = transport.swap(self.place[nodes], wanted, asked, "exchange of the named nodes")
        refuse_outside(
            send_index, asked, shard.num_owned, "the place of a row", transport, "exchange of the named nodes"
        )
        return NamedHalo.of(transport.rank, shard.ids, nodes, send_index, asked, wanted)
