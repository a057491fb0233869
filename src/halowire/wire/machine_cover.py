"""Where a row crosses the network once per machine, all workers of the machine share one choice of partial sums.

The edges from a worker of another machine to all workers of this one join its rows and their nodes. A row in the cover
crosses once, and is handed on to the workers that read it; a node in the cover gets the sum of its rows that are not.
So a minimum vertex cover of these edges is the fewest rows and sums that can cross from that worker to this machine,
while covers for every two workers take a row for each worker that reads it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.events import SETUP
from halowire.kernels import Csr
from halowire.partitioning import Shard, cover_counts, fewest_rows
from halowire.wire.arrived import refuse_outside
from halowire.wire.transport import Transport

WHERE = "agreement on the sums that a machine gets"


def machine_cover(shard: Shard, halo: Csr, covered: Tensor, transport: Transport) -> Tensor:
    """The halo rows that travel themselves, bool ``[h]``; all workers call this together.

    ``halo`` ``[n, h]`` has the edges from halo rows; ``covered``, bool ``[h]``, is the choice for every two workers,
    which stays as it is within a machine, and between machines where it lets fewer rows cross.
    """
    if not transport.machines.shared:
        return covered
    together, crossing = _together(shard, halo, covered, transport)
    apart = sum(
        count
        for peer, count in enumerate(cover_counts(halo, covered, shard.recv_counts))
        if not transport.machines.together(transport.rank, peer)
    )
    first = transport.machines.beside(transport.rank)[0] == transport.rank
    rows = transport.all_reduce(torch.tensor([crossing if first else 0, apart]), WHERE, SETUP).tolist()
    return together if rows[0] < rows[1] else covered


def _together(shard: Shard, halo: Csr, covered: Tensor, transport: Transport) -> tuple[Tensor, int]:
    """The choice for all workers of this machine together, and how many rows and sums cross to it."""
    sources, targets = _edges_beside(shard, halo, transport)
    owner = torch.repeat_interleave(torch.arange(shard.num_parts), torch.tensor(shard.recv_counts))
    found, crossing = covered.clone(), 0
    for peer in range(transport.size):
        if transport.machines.together(transport.rank, peer):
            continue
        chosen, rows = fewest_rows(sources[peer], targets[peer])
        crossing += rows
        mine = (owner == peer).nonzero().flatten()
        found[mine] = torch.isin(shard.halo_ids[mine], chosen)
    return found, crossing


def _edges_beside(shard: Shard, halo: Csr, transport: Transport) -> tuple[list[Tensor], list[Tensor]]:
    """By owner, the ids of sources and nodes of all edges that lead to this machine, worker after worker."""
    rank, size, machines = transport.rank, transport.size, transport.machines
    owner = torch.repeat_interleave(torch.arange(size), torch.tensor(shard.recv_counts))
    column, row = halo.indices.long(), halo.row_index()
    order = torch.argsort(owner[column], stable=True)
    edges = torch.stack([shard.halo_ids[column], shard.ids[row]], 1)[order]
    counts = torch.bincount(owner[column], minlength=size)
    others = [peer for peer in machines.beside(rank) if peer != rank]
    each = [size * (peer in others) for peer in range(size)]
    most = int(transport.all_reduce(torch.tensor([len(edges)]), WHERE, SETUP))  # no list is longer than all together
    sizes = transport.swap(counts.repeat(len(others)), each, each, WHERE).view(-1, size)
    refuse_outside(sizes.view(-1), each, most + 1, "the number of edges", transport, WHERE)
    known = {rank: counts} | dict(zip(others, sizes, strict=True))
    sent = [len(edges) * (peer in others) for peer in range(size)]
    received = [int(known[peer].sum()) if peer in others else 0 for peer in range(size)]
    arrived = transport.swap(edges.repeat(len(others), 1), sent, received, WHERE)
    parts = {rank: edges} | dict(zip(others, torch.split(arrived, [received[peer] for peer in others]), strict=True))
    by_owner = [torch.split(parts[peer], known[peer].tolist()) for peer in machines.beside(rank)]
    whole = [torch.cat([of[peer] for of in by_owner]) for peer in range(size)]
    return [of[:, 0] for of in whole], [of[:, 1] for of in whole]
