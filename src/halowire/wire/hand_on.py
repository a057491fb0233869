"""Once per machine: a row that several workers of a machine need crosses the network once, and is handed on there.

Of the workers of a machine that need a row of another machine, one is its carrier (see `choose_carriers`). The row is
sent to the carrier alone, which hands its bytes on, as they came, to the others. Backward, those send their gradients
of the row to the carrier in float32; it adds them to its own, and the sum goes back to the owner, coded once:

    forward:   owner -> carrier -> other readers          backward:   other readers -> carrier -> owner

So the lists of the network are those of the exchange without the rows that somebody else carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.kernels import Csr, sent_over, take_rows
from halowire.partitioning import HaloLists
from halowire.wire.arrived import refuse_outside
from halowire.wire.carriers import choose_carriers
from halowire.wire.hop import Hop
from halowire.wire.route import inverse_of
from halowire.wire.transport import Transport

WHERE = "agreement on the rows that a machine gets once"
LEAST_SAVING = 0.05
"""The share of the rows between machines that must be saved: handing on costs a message within the machine."""


@dataclass(frozen=True, eq=False)
class NetworkLists:
    """The lists of an exchange without the rows that other workers carry; see `HaloLists`."""

    rank: int
    ids: Tensor
    num_boundary: int
    halo_ids: Tensor
    symmetric_degree: Tensor
    send_index: Tensor
    send_counts: tuple[int, ...]
    recv_counts: tuple[int, ...]

    @property
    def num_owned(self) -> int:
        """Number of rows that may be sent."""
        return self.ids.numel()

    @property
    def num_halo(self) -> int:
        """Number of rows that arrive for this worker to use or to hand on."""
        return self.halo_ids.numel()


@dataclass(frozen=True, eq=False)
class HandOn:
    """How the workers of a machine share rows, seen from one of them, which carries ``m`` of its ``h`` halo rows.

    Attributes:
        lists: what is sent to every peer, and what arrives from the owners.
        sent: places of the original send list whose rows this worker still sends, int64, ascending.
        carried: halo rows that arrive from their owners, int64 ``[m]``, ascending.
        handed: carried rows (0 to ``m - 1``) that this worker hands on, grouped by peer, int64.
        handed_counts: number of rows that it hands on to every peer.
        taken: halo rows that others hand on to this worker, grouped by carrier, int64 ``[h - m]``.
        taken_counts: number of rows that every peer hands on to it.
        order: for every halo row its place among the carried rows followed by the taken ones, int64 ``[h]``.
        sums: adds the gradients of the rows that were handed on to the carried rows, ``[m, handed]``.
    """

    lists: NetworkLists
    sent: Tensor
    carried: Tensor
    handed: Tensor
    handed_counts: tuple[int, ...]
    taken: Tensor
    taken_counts: tuple[int, ...]
    order: Tensor
    sums: Csr

    @property
    def num_halo(self) -> int:
        """Number of halo rows, ``h``."""
        return self.order.numel()

    @staticmethod
    def agree(lists: HaloLists, transport: Transport, device: torch.device) -> HandOn | None:
        """Find out which rows the workers of this machine share; all workers call this together.

        None, on all workers, where fewer than 5 per cent of the rows between machines would be saved.
        """
        machines, rank = transport.machines, transport.rank
        if not machines.shared:
            return None
        kept = _kept(lists, transport)
        between = torch.tensor([not machines.together(rank, peer) for peer in range(transport.size)])
        crosses = torch.repeat_interleave(between, torch.tensor(lists.send_counts))
        sizes = torch.stack([crosses.sum(), (crosses & kept).sum(), torch.tensor(kept.numel())])
        rows, crossing, most = transport.all_reduce(sizes, WHERE, SETUP).tolist()
        if crossing > (1 - LEAST_SAVING) * rows:
            return None
        return _plan(lists, transport, kept, device, most)

    def pass_on(self, data: Tensor, row_bytes: int, halo: Tensor, hop: Hop) -> None:
        """Hand on what others need, and write the bytes of all halo rows to ``halo``, uint8 ``[h * row_bytes]``.

        ``data``, uint8 ``[h * row_bytes]``, begins with the bytes of the carried rows.
        """
        rows = data.view(-1, row_bytes)
        leaving = hop.room(self.handed.numel() * row_bytes)
        with hop.transport.ledger.phase("pack"):
            take_rows(rows, self.handed, out=leaving.view(-1, row_bytes))
        hop.swap(leaving, self.handed_counts, data[self.carried.numel() * row_bytes :], self.taken_counts, row_bytes)
        with hop.transport.ledger.phase("pack"):
            take_rows(rows, self.order, out=halo.view(-1, row_bytes))

    def gather(self, halo_grad: Tensor, hop: Hop) -> Tensor:
        """The gradients ``[m, k]`` of the carried rows, summed over the workers of this machine that need them.

        ``halo_grad`` ``[h, k]`` are those of this worker's halo rows.
        """
        width = halo_grad.shape[1]
        leaving = hop.room(4 * width * self.taken.numel())
        with hop.transport.ledger.phase("pack"):
            take_rows(halo_grad, self.taken, out=leaving.view(torch.float32).view(-1, width))
            total = take_rows(halo_grad, self.carried)
        arrived = torch.empty(4 * width * self.handed.numel(), dtype=torch.uint8, device=halo_grad.device)
        hop.swap(leaving, self.taken_counts, arrived, self.handed_counts, 4 * width)
        with hop.transport.ledger.phase("pack"):
            self.sums.matmul(arrived.view(torch.float32).view(-1, width), out=total, accumulate=True)
        return total


def _kept(lists: HaloLists, transport: Transport) -> Tensor:
    """Which places of the send list stay, bool: those whose row the peer carries, or gets from its own machine."""
    kept = torch.ones(lists.send_index.numel(), dtype=torch.bool)
    wanted = torch.split(lists.ids[lists.send_index], list(lists.send_counts))
    places = torch.split(kept, list(lists.send_counts))
    for members in transport.machines.others(transport.rank):
        carriers = choose_carriers([wanted[member] for member in members])
        for number, (member, carrier) in enumerate(zip(members, carriers, strict=True)):
            places[member].copy_(carrier == number)
    return kept


def _plan(lists: HaloLists, transport: Transport, kept: Tensor, device: torch.device, most: int) -> HandOn:
    """Who of this machine carries what, found from the halos of its workers, which tell each other their ids.

    ``most`` is the number of rows that all workers send together.
    """
    rank, size = transport.rank, transport.size
    members = transport.machines.beside(rank)
    halos = _halos_beside(lists, transport, members, most)
    me = members.index(rank)
    carrier = [torch.full((halo.numel(),), number) for number, halo in enumerate(map(torch.cat, halos))]
    starts = [[0, *torch.tensor([part.numel() for part in halo]).cumsum(0).tolist()] for halo in halos]
    for owner in range(size):
        if owner not in members:
            for number, found in enumerate(choose_carriers([halo[owner] for halo in halos])):
                carrier[number][starts[number][owner] : starts[number][owner + 1]] = found
    carried = (carrier[me] == me).nonzero().flatten()
    wanted = {other: torch.cat(halos[other])[carrier[other] == me] for other in range(len(members)) if other != me}
    handed = {members[other]: _places(ids, lists.halo_ids[carried]) for other, ids in wanted.items()}
    taken = {members[other]: (carrier[me] == other).nonzero().flatten() for other in wanted}
    order = torch.empty(lists.num_halo, dtype=torch.int64)
    order[torch.cat([carried, *taken.values()])] = torch.arange(lists.num_halo)
    none = torch.empty(0, dtype=torch.int64)  # a worker may be alone on its machine
    given = torch.cat([none, *handed.values()])
    network = NetworkLists(
        lists.rank, lists.ids, lists.num_boundary, lists.halo_ids[carried], lists.symmetric_degree,
        lists.send_index[kept], _counted(kept, lists.send_counts), _counted(carrier[me] == me, lists.recv_counts),
    )  # fmt: skip
    return HandOn(
        network,
        kept.nonzero().flatten(),
        sent_over(carried, device),
        sent_over(given, device),
        tuple(handed[peer].numel() if peer in handed else 0 for peer in range(size)),
        sent_over(torch.cat([none, *taken.values()]), device),
        tuple(taken[peer].numel() if peer in taken else 0 for peer in range(size)),
        sent_over(order, device),
        inverse_of(given, carried.numel()).to(device),
    )


def _halos_beside(
    lists: HaloLists, transport: Transport, members: Sequence[int], most: int
) -> list[tuple[Tensor, ...]]:
    """The ids of the halo rows of all ``members`` of this machine, by owner; no list is longer than ``most``."""
    rank, size = transport.rank, transport.size
    others = [member for member in members if member != rank]
    each = [size * (peer in others) for peer in range(size)]
    sizes = transport.swap(torch.tensor(lists.recv_counts).repeat(len(others)), each, each, WHERE).view(-1, size)
    refuse_outside(sizes.view(-1), each, most + 1, "the number of halo rows", transport, WHERE)
    counts = {rank: list(lists.recv_counts)} | dict(zip(others, sizes.tolist(), strict=True))
    sent = [lists.num_halo * (peer in others) for peer in range(size)]
    received = [sum(counts[peer]) if peer in others else 0 for peer in range(size)]
    arrived = transport.swap(lists.halo_ids.repeat(len(others)), sent, received, WHERE)
    ids = {rank: lists.halo_ids} | dict(zip(others, torch.split(arrived, [received[p] for p in others]), strict=True))
    return [torch.split(ids[member], counts[member]) for member in members]


def _places(wanted: Tensor, ids: Tensor) -> Tensor:
    """The place of every ``wanted`` id among ``ids``, each of which occurs once."""
    order = torch.argsort(ids)
    found = torch.searchsorted(ids[order], wanted).clamp_max(max(ids.numel() - 1, 0))
    places = order[found] if ids.numel() else found
    if wanted.numel() and not (ids.numel() and torch.equal(ids[places], wanted)):
        raise InputError(
            "workers of one machine disagree on the rows that they need; give all of them shards of the same partition"
        )
    return places


def _counted(chosen: Tensor, counts: Sequence[int]) -> tuple[int, ...]:
    """How many rows of every group of a list are ``chosen``."""
    return tuple(int(part.sum()) for part in torch.split(chosen, list(counts)))
