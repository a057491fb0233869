"""How many rows cross the network where a machine has several workers: once per worker, per machine, or as sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from halowire.kernels import Csr, minimum_cover
from halowire.partitioning.halo_lists import HaloLists
from halowire.partitioning.shard import Shard


def machine_rows(parts: Iterable[HaloLists], machine: Sequence[int]) -> tuple[int, int]:
    """The rows between machines if every worker gets its own, and if every machine gets a row once.

    ``machine[p]`` is the machine of part ``p``.
    """
    wanted: dict[int, list[torch.Tensor]] = {}
    for part in parts:
        owner = torch.repeat_interleave(torch.tensor(machine), torch.tensor(part.recv_counts))
        wanted.setdefault(machine[part.rank], []).append(part.halo_ids[owner != machine[part.rank]])
    lists = [torch.cat(of) for of in wanted.values()]
    return sum(ids.numel() for ids in lists), sum(torch.unique(ids).numel() for ids in lists)


def machine_sums(shards: Iterable[Shard], machine: Sequence[int]) -> int:
    """The fewest rows and partial sums between machines: for every worker and machine, those of a minimum cover."""
    ends: dict[tuple[int, int], list[torch.Tensor]] = {}
    for shard in shards:
        owner = torch.repeat_interleave(torch.arange(shard.num_parts), torch.tensor(shard.recv_counts))
        column, row = shard.halo.indices.long(), shard.halo.row_index()
        edges = torch.stack([shard.halo_ids[column], shard.ids[row]])
        for peer in range(shard.num_parts):
            if machine[peer] != machine[shard.rank]:
                ends.setdefault((peer, machine[shard.rank]), []).append(edges[:, owner[column] == peer])
    return sum(fewest_rows(*torch.cat(of, 1))[1] for of in ends.values())


def fewest_rows(sources: torch.Tensor, nodes: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Which sources of the edges from ``sources`` to ``nodes``, int64 ``[e]``, to send, and the rows and sums.

    A node that reads a source that is not sent gets the sum of these. The sources are ids, ascending.
    """
    ids, source = torch.unique(sources, return_inverse=True)
    targets, target = torch.unique(nodes, return_inverse=True)
    chosen = minimum_cover(Csr.from_edges(source, target, ids.numel(), targets.numel()))
    return ids[chosen], int(chosen.sum()) + torch.unique(target[~chosen[source]]).numel()
