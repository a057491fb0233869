"""The error of a message: how far the rows that a receiver uses are from the true rows, due to code and delay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.events import Ledger
from halowire.kernels import sent_over
from halowire.wire.codec import Full, Uniform
from halowire.wire.message import Message

Correct = Callable[[Tensor], Tensor]
"""A function that turns the rows ``[m, k]`` of the previous epoch into those that are used in this one."""
MEASURE_EVERY = 10
"""Number of epochs from one measurement of the error to the next."""
MEASURED_ROWS = 256
"""Number of rows of a message on which the error is measured."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some ``rows`` ``[m, k]`` of a message, their ``index`` ``[m]``, and the rows that the receiver has ``seen``."""

    index: Tensor
    rows: Tensor
    seen: Tensor

    @staticmethod
    def of(message: Message, rows: Tensor, index: Tensor | None = None) -> Sample:
        """Sample the rows ``index`` of ``rows`` ``[n, k]``; by default the rows that the codec chooses."""
        codec = message.terms.codec
        if index is None:
            chosen = codec.samples(min(MEASURED_ROWS, len(rows)))
        else:
            assert isinstance(codec, Uniform)
            chosen = [(codec, index)]
        there = [(one, sent_over(part, rows.device)) for one, part in chosen]
        return Sample(
            torch.cat([part for _, part in chosen]),
            torch.cat([rows[part] for _, part in there]),
            torch.cat([message.seen(rows, part, one) for one, part in there]),
        )


def as_they_are(rows: Tensor) -> Tensor:
    """``rows`` without a correction."""
    return rows


class CodeError:
    """Books ``|used - row|^2 / |row|^2`` of the messages of one exchange, over all sampled rows of a message."""

    def __init__(self, ledger: Ledger, delayed: bool = False) -> None:
        """``delayed``: receivers use the rows of the previous epoch, so the error contains a change of one epoch."""
        self._ledger = ledger
        self._delayed = delayed
        self._last: dict[tuple[int, str], tuple[int, Sample]] = {}

    def measure(
        self,
        message: Message,
        rows: Tensor,
        late: bool = False,
        index: Tensor | None = None,
        correct: Correct = as_they_are,
    ) -> None:
        """Book the error of a message that was launched from ``rows``, in the epochs in which it is due.

        ``late``: the receiver uses the previous message in its place; without a previous message nothing is booked.
        ``correct`` stands for the receiver's correction of late rows; this worker's own one is as good.
        """
        terms, place = message.terms, message.place
        plain = isinstance(terms.codec, Full) and terms.columns is None and not self._delayed
        due = terms.epoch % MEASURE_EVERY == 0
        next_due = self._delayed and (terms.epoch + 1) % MEASURE_EVERY == 0
        if plain or terms.epoch < 0 or not len(rows) or not (due or next_due):
            return
        with self._ledger.phase("pack"):
            now = Sample.of(message, rows, index)
            then: int | None = terms.epoch - 1
            used = now
            if late and self._delayed:
                then, used = self._last.pop(place, (None, now))
                used = replace(used, seen=correct(used.seen))
            if next_due:
                self._last[place] = terms.epoch, now
            # The rows of one sample are not compared with themselves: on a device the host would wait for it.
            same = used.index is now.index or torch.equal(used.index, now.index)
            if due and then == terms.epoch - 1 and same:
                self._ledger.error(*place, (used.seen - now.rows).square().sum(), now.rows.square().sum())
