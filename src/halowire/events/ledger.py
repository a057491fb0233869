"""The ledger: bytes and seconds of everything that crosses the wire, counted where it happens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from halowire.events.clocks import Clock, HostClock

if TYPE_CHECKING:  # the report reads ledgers without torch
    from torch import Tensor

SETUP = "setup"
TRAIN = "train"
STAGE = "stage"
EVAL = "eval"
GRADIENT = "gradient"
LOCAL = "local"
LOCAL_REST = "local rest"
NETWORK = (SETUP, TRAIN, STAGE, EVAL, GRADIENT)
"""What bytes cross the network for: set-up, halos in training, rows between stages, evaluation, gradients.

The workers of a single machine count as workers on a network."""
ACCOUNTS = (*NETWORK, LOCAL, LOCAL_REST)
"""All accounts: those of the network, then the halo and stage rows of training that stay on one of several machines,
then everything else that does."""


@dataclass
class LedgerEntry:
    """What was booked between two calls of :meth:`Ledger.take`.

    Attributes:
        phases: seconds of every phase.
        sent: bytes of every account.
        exchanges: bytes sent and seconds waited, by (layer, direction).
        errors: relative error that coding made, by (layer, direction).
    """

    phases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    sent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    exchanges: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    errors: dict[tuple[int, str], float] = field(default_factory=dict)

    def exchange_list(self) -> list[dict[str, object]]:
        """One record per layer and direction, in the order of the events file."""
        records: list[dict[str, object]] = []
        for place, (sent, wait) in sorted(self.exchanges.items()):
            record = {"layer": place[0], "direction": place[1], "bytes": int(sent), "wait": wait}
            records.append(record | ({"error": self.errors[place]} if place in self.errors else {}))
        return records


class Ledger:
    """Counts bytes per account and seconds per phase, such as ``forward`` or ``wait``.

    Phases nest: the inner one stops the clock of the outer one, so that the phases of an epoch add up to the epoch.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.totals: dict[str, int] = dict.fromkeys(ACCOUNTS, 0)
        self._clock: Clock = clock or HostClock()
        self._entry = LedgerEntry()
        self._stack: list[str] = []
        self._since: Any = None
        self._account = SETUP
        self._measured: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}

    @property
    def now(self) -> LedgerEntry:
        """What was booked since the last :meth:`take`, without phases that are still open.

        The seconds of a device's clock are not among it: they are read by :meth:`take`.
        """
        self._read_errors()
        return self._entry

    @property
    def clock(self) -> Clock:
        """The clock that measures now; :meth:`take` reads it."""
        return self._clock

    def measure_by(self, clock: Clock) -> None:
        """Measure all later phases by ``clock``; no phase may be open."""
        if self._stack:
            raise ValueError(f"the clock changes within the phase {self._stack[-1]!r}")
        self._clock.read()
        self._clock = clock

    @contextmanager
    def account(self, name: str) -> Iterator[None]:
        """Book everything sent inside the block under the account ``name``."""
        if name not in ACCOUNTS:
            raise ValueError(f"unknown account {name!r}; known: {', '.join(ACCOUNTS)}")
        before, self._account = self._account, name
        try:
            yield
        finally:
            self._account = before

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Give the seconds of the block to the phase ``name``, without the seconds of phases that open inside it."""
        self._charge()
        self._stack.append(name)
        try:
            yield
        finally:
            self._charge()
            self._stack.pop()

    def sent(self, nbytes: int, layer: int = -1, direction: str = "", local: int = 0) -> None:
        """Book ``nbytes`` that this worker sent to other machines, and ``local`` bytes to workers of its own."""
        within = LOCAL if self._account in (TRAIN, STAGE) else LOCAL_REST
        for account, count in ((self._account, nbytes), (within, local)):
            self.totals[account] += count
            self._entry.sent[account] += count
        if direction:
            self._entry.exchanges[layer, direction][0] += nbytes

    @contextmanager
    def waiting(self, layer: int, direction: str) -> Iterator[None]:
        """Give the seconds of the block to the phase ``wait``, and to the exchange of ``layer`` in ``direction``."""
        start = self._clock.now()
        with self.phase("wait"):
            yield
        self._clock.add(self._entry.exchanges[layer, direction], 1, start, self._clock.now())

    def error(self, layer: int, direction: str, change: Tensor, norm: Tensor) -> None:
        """Book ``change / norm``, the relative error ``|decoded - row|^2 / |row|^2`` of a sample of a message's rows.

        Both are tensors without a dimension, which are read later, all at once: on a device the host would
        wait for each of them. Where the norm is 0 no error is booked.
        """
        self._measured[layer, direction] = change, norm

    def take(self) -> LedgerEntry:
        """Return what was booked since the last call and start anew; the totals stay.

        Where a device has the clock, the host waits here until the device has done what the phases measure.
        """
        self._charge()
        self._clock.read()
        self._read_errors()
        entry, self._entry = self._entry, LedgerEntry()
        return entry

    def _read_errors(self) -> None:
        """Read the errors that were booked since the last time."""
        if self._measured:
            import torch

            found = torch.stack([torch.stack(pair) for pair in self._measured.values()]).tolist()
            pairs = zip(self._measured, found, strict=True)
            self._entry.errors |= {place: change / norm for place, (change, norm) in pairs if norm}
            self._measured.clear()

    def _charge(self) -> None:
        now = self._clock.now()
        if self._stack:
            self._clock.add(self._entry.phases, self._stack[-1], self._since, now)
        self._since = now
