"""How many halo rows cross the network where a machine has several workers: once per worker, or once per machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from halowire.partitioning.halo_lists import HaloLists


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
