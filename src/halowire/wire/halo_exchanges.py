"""The exchanges of one worker under one policy: one for a graph of one edge type, else one for every edge type."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from halowire.partitioning import HaloLists
from halowire.wire.halo_exchange import Change, HaloExchange
from halowire.wire.policy import Policy
from halowire.wire.transport import Transport


class HaloExchanges:
    """One `HaloExchange` by name for each of a worker's halos; together they are driven and saved like a single one.

    The crossings of a pass are numbered over all of them, so that no two messages share a layer of the policy.
    """

    def __init__(
        self, halos: Mapping[str, HaloLists], transport: Transport, device: torch.device, policy: Policy
    ) -> None:
        self.policy = policy
        self.device = device
        self._members = {name: HaloExchange(halo, transport, device, policy) for name, halo in halos.items()}

    def __getitem__(self, name: str) -> HaloExchange:
        return self._members[name]

    @property
    def synchronise_next(self) -> bool:
        """Whether the next epoch uses its own rows; one answer for all halos."""
        return any(member.synchronise_next for member in self._members.values())

    @synchronise_next.setter
    def synchronise_next(self, value: bool) -> None:
        for member in self._members.values():
            member.synchronise_next = value

    def take_change(self) -> Change:
        """The squared change of the watched rows since the previous epoch, and their squared norm, over all halos."""
        change: float | Tensor = 0.0
        norm: float | Tensor = 0.0
        for member in self._members.values():
            found = member.take_change()
            change = change + found[0]
            norm = norm + found[1]
        return change, norm

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on; the names of several members begin with the member's number."""
        states = [member.state() for member in self._members.values()]
        if len(states) == 1:
            return states[0]
        return {f"{number}/{name}": value for number, found in enumerate(states) for name, value in found.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from ``state``, which :meth:`state` gave."""
        for number, member in enumerate(self._members.values()):
            prefix = "" if len(self._members) == 1 else f"{number}/"
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            member.load_state(own)

    def forget(self) -> None:
        """Forget everything that :meth:`state` holds; the next epoch uses its own rows."""
        for member in self._members.values():
            member.forget()
