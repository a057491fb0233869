"""The exchanges of one worker under one policy: one for a graph of one edge type, else one for every edge type."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from halowire.partitioning import HaloLists
from halowire.wire.cover import Cover
from halowire.wire.halo_exchange import Change, HaloExchange
from halowire.wire.policy import Policy
from halowire.wire.transport import Transport

OF_SUMS = "sums/"
"""How the names of the state of partial sums begin."""


class HaloExchanges:
    """One `HaloExchange` by name for each of a worker's halos; together they are driven and saved like a single one.

    The crossings of a pass are numbered over all of them, so that no two messages share a layer of the policy. The
    layers ``summing`` may have partial sums in the place of halo rows: each of these has an exchange of its own.
    """

    def __init__(
        self,
        halos: Mapping[str, HaloLists],
        transport: Transport,
        device: torch.device,
        policy: Policy,
        summing: Collection[str] = (),
    ) -> None:
        self.policy = policy
        self.device = device
        self.summing = frozenset(summing)
        self._transport = transport
        self._members = {name: HaloExchange(halo, transport, device, policy) for name, halo in halos.items()}
        self._sums: dict[str, HaloExchange] = {}
        self._later: dict[str, dict[str, Tensor]] = {}

    def __getitem__(self, name: str) -> HaloExchange:
        return self._members[name]

    def summed(self, name: str, lists: HaloLists, cover: Cover) -> HaloExchange:
        """The exchange ``name`` of the rows and partial sums of ``cover``; all workers make it together at first.

        ``lists`` are the rows of the halo without partial sums.
        """
        if name not in self._sums:
            exchange = HaloExchange(lists, self._transport, self.device, self.policy)
            exchange.cover(cover)
            exchange.synchronise_next = self.synchronise_next
            self._sums[name] = exchange
            if name in self._later:
                exchange.load_state(self._later.pop(name))
        return self._sums[name]

    @property
    def _all(self) -> list[HaloExchange]:
        return [*self._members.values(), *self._sums.values()]

    @property
    def synchronise_next(self) -> bool:
        """Whether the next epoch uses its own rows; one answer for all halos."""
        return any(member.synchronise_next for member in self._all)

    @synchronise_next.setter
    def synchronise_next(self, value: bool) -> None:
        for member in self._all:
            member.synchronise_next = value

    def take_change(self) -> Change:
        """The squared change of the watched rows since the previous epoch, and their squared norm, over all halos."""
        change: float | Tensor = 0.0
        norm: float | Tensor = 0.0
        for member in self._all:
            found = member.take_change()
            change = change + found[0]
            norm = norm + found[1]
        return change, norm

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on.

        The names of several members begin with the member's number, those of partial sums with the exchange's name.
        """
        states = [member.state() for member in self._members.values()]
        several = len(states) > 1
        found = {
            f"{number}/{name}" if several else name: value
            for number, of in enumerate(states)
            for name, value in of.items()
        }
        sums = {name: exchange.state() for name, exchange in self._sums.items()} | self._later
        return found | {f"{OF_SUMS}{name}/{key}": value for name, of in sums.items() for key, value in of.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from ``state``, which :meth:`state` gave.

        That of partial sums waits until the workers have agreed on them.
        """
        self._later = {}
        for name, value in state.items():
            if name.startswith(OF_SUMS):
                exchange, _, key = name.removeprefix(OF_SUMS).rpartition("/")
                self._later.setdefault(exchange, {})[key] = value
        for name in self._later.keys() & self._sums.keys():
            self._sums[name].load_state(self._later.pop(name))
        state = {name: value for name, value in state.items() if not name.startswith(OF_SUMS)}
        for number, member in enumerate(self._members.values()):
            prefix = "" if len(self._members) == 1 else f"{number}/"
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            member.load_state(own)

    def forget(self) -> None:
        """Forget everything that :meth:`state` holds; the next epoch uses its own rows."""
        self._later = {}
        for member in self._all:
            member.forget()
