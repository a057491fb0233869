"""One pass over a file: its checksum, the first value that breaks a rule, and the checksum of every run of values.

A run is a stretch of an array with a meaning of its own, such as the rows for one peer. Values rise within a run, not
from one to the next. The checksum of the file is joined from those of its runs, so that no byte is read twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Kind, Rule, joined_checksum, look


@dataclass
class Stretch:
    """Bytes of a file that share a rule: ``left`` of them are not read yet; values begin ``start`` bytes from here."""

    left: int
    start: int
    rule: Rule
    size: int = 0
    crc: int = 0
    before: int | None = None


class FilePass:
    """What is known of a file after the pieces that were given to :meth:`take`.

    Args:
        size: bytes of the file.
        start: where its values begin.
        dtype: their type.
        rule: what they must be; for any, only checksums are computed.
        runs: the number of values in each run, all of them together, or empty if the array has no runs.

    Attributes:
        bad: the first place whose value breaks the rule; None as long as there is none.
    """

    def __init__(self, size: int, start: int, dtype: torch.dtype, rule: Rule, runs: tuple[int, ...] = ()) -> None:
        self.dtype = dtype
        self.place = 0
        self.bad: int | None = None
        if runs and start + sum(runs) * dtype.itemsize == size:
            stretches = [Stretch(run * dtype.itemsize, 0, rule) for run in runs]
            self._stretches = [Stretch(start, start, Rule()), *stretches]
        else:
            # The header comes along with the values, which saves a call for most files.
            self._stretches = [Stretch(size, start, rule)]
        self._now = 0

    @property
    def checksum(self) -> int:
        """The checksum of all that was taken."""
        crc = self._stretches[0].crc
        for stretch in self._stretches[1:]:
            crc = joined_checksum(crc, stretch.crc, stretch.size)
        return crc

    @property
    def digests(self) -> list[int]:
        """The checksums of the runs."""
        return [stretch.crc for stretch in self._stretches[1:]]

    def take(self, piece: Tensor) -> None:
        """Look at the next piece of the file, uint8 ``[n]``, which ends with a whole value."""
        while piece.numel():
            stretch = self._stretches[self._now]
            # What comes after the end, in a file that grew, belongs to the last stretch.
            last = self._now + 1 == len(self._stretches)
            count = piece.numel() if last else min(stretch.left, piece.numel())
            if count:
                self._look(stretch, piece[:count])
            stretch.left -= count
            piece = piece[count:]
            self._now += stretch.left <= 0 and not last

    def _look(self, stretch: Stretch, piece: Tensor) -> None:
        count = piece.numel()
        stretch.size += count
        if stretch.rule.kind == Kind.ANY or self.bad is not None or stretch.start >= count:
            stretch.crc, _ = look(piece, 0, torch.uint8, Rule(), stretch.crc)
        else:
            stretch.crc, found = look(piece, stretch.start, self.dtype, stretch.rule, stretch.crc, stretch.before)
            self.bad = None if found is None else self.place + found
            self.place += (count - stretch.start) // self.dtype.itemsize
            if stretch.rule.kind == Kind.RISING:
                stretch.before = int(piece[-8:].view(torch.int64))
        stretch.start = max(0, stretch.start - count)
