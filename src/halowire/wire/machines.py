"""Which workers share a machine: what they send each other never reaches the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Machines:
    """The machine of every member of a transport: members with equal numbers in ``of`` share one."""

    of: tuple[int, ...]

    @staticmethod
    def split(size: int, hosts: int) -> Machines:
        """``size`` workers on ``hosts`` machines, as evenly as possible, neighbours in rank together.

        >>> Machines.split(3, 2).of
        (0, 0, 1)
        """
        return Machines(tuple(rank * hosts // size for rank in range(size)))

    @property
    def count(self) -> int:
        """The number of machines."""
        return len(set(self.of))

    @property
    def shared(self) -> bool:
        """Whether there are several machines, and some of them have several workers."""
        return 1 < self.count < len(self.of)

    def together(self, first: int, second: int) -> bool:
        """Whether two members are on one of several machines; a single machine stands for a network of its workers."""
        return self.count > 1 and self.of[first] == self.of[second]

    def elsewhere(self, member: int) -> list[bool]:
        """For every member, whether the network lies between it and ``member``."""
        return [not self.together(member, other) for other in range(len(self.of))]

    def beside(self, member: int) -> list[int]:
        """All members on the machine of ``member``, itself included, ascending."""
        return [other for other, machine in enumerate(self.of) if machine == self.of[member]]

    def others(self, member: int) -> list[list[int]]:
        """The members of every other machine than that of ``member``."""
        numbers = sorted(set(self.of) - {self.of[member]})
        return [[other for other, machine in enumerate(self.of) if machine == number] for number in numbers]

    def among(self, members: Sequence[int]) -> Machines:
        """The machines of some of the members, in the order given."""
        return Machines(tuple(self.of[member] for member in members))
