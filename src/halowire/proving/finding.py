"""A finding: how far the results of a device and of the CPU are apart, and how far they may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One comparison.

    Attributes:
        name: what was compared.
        apart: the largest difference, of the largest value; of bytes the share that differs.
        allowed: how far apart the results may be; 0: not at all.
        problem: what else is wrong, empty where nothing is.
    """

    name: str
    apart: float
    allowed: float
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether the results agree; NaN does not."""
        return self.apart <= self.allowed and not self.problem

    def words(self) -> str:
        """The finding in a line."""
        said = "equal" if self.apart == 0 else f"{self.apart:.1e} apart (allowed: {self.allowed:.0e})"
        return f"{self.name}: {said}{', ' + self.problem if self.problem else ''}"
