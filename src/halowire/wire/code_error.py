"""The error of a message: how far what is used of its rows is from what they are, by its code and by its delay."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.events import Ledger
from halowire.wire.codec import Full, Uniform
from halowire.wire.message import Message

MEASURE_EVERY = 10
"""The error is measured in every so many epochs."""
MEASURED_ROWS = 256
"""The error is measured on so many rows of a message."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some ``rows`` ``[m, k]`` of a message, their ``index`` ``[m]``, and what is ``seen`` of them at the other end."""

    index: Tensor
    rows: Tensor
    seen: Tensor

    @staticmethod
    def of(message: Message, rows: Tensor, index: Tensor | None = None) -> Sample:
        """The rows ``index`` of ``rows`` ``[n, k]``; by default those that the codec chooses."""
        codec = message.terms.codec
        if index is None:
            chosen = codec.samples(min(MEASURED_ROWS, len(rows)))
        else:
            assert isinstance(codec, Uniform)
            chosen = [(codec, index)]
        return Sample(
            torch.cat([part for _, part in chosen]),
            torch.cat([rows[part] for _, part in chosen]),
            torch.cat([message.seen(rows, part, one) for one, part in chosen]),
        )


class CodeError:
    """Books ``|used - row|^2 / |row|^2`` of the messages of one exchange, all sampled rows of a message together."""

    def __init__(self, ledger: Ledger, delayed: bool = False) -> None:
        """``delayed``: rows are used an epoch late, so that what is used of them is what was sent of them then."""
        self._ledger = ledger
        self._delayed = delayed
        self._last: dict[tuple[int, str], tuple[int, Sample]] = {}

    def measure(self, message: Message, rows: Tensor, late: bool = False, index: Tensor | None = None) -> None:
        """Book the error of a message that was launched from ``rows``, in the epochs in which it is due.

        ``late``: the message before it is used in its place; a delay without a message before is not measured.
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
            if next_due:
                self._last[place] = terms.epoch, now
            norm = float(now.rows.square().sum())
            if due and then == terms.epoch - 1 and norm and torch.equal(used.index, now.index):
                self._ledger.error(*place, float((used.seen - now.rows).square().sum()) / norm)
