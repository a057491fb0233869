"""A finding: how far the results of a device and of the CPU are apart, and how far they may be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from halowire.errors import in_one_line


@dataclass(frozen=True)
class Finding:
    """One comparison.

    Attributes:
        name: what was compared.
        apart: the largest difference, of the largest value; of bytes the share that differs.
        allowed: how far apart the results may be; 0: not at all.
        problem: what else is wrong, empty where nothing is.
        failure: why there is nothing to compare, empty where there is.
    """

    name: str
    apart: float
    allowed: float
    problem: str = ""
    failure: str = ""

    @staticmethod
    def of_failure(name: str, failure: str) -> Finding:
        """What is found where a step ended with an error; ``failure`` is the error in words, see `error_words`."""
        return Finding(name, math.inf, 0.0, failure=f"failed: {failure}")

    @property
    def good(self) -> bool:
        """Whether the results agree; NaN does not."""
        return self.apart <= self.allowed and not self.problem and not self.failure

    def words(self) -> str:
        """The finding in a line."""
        if self.failure:
            return f"{self.name}: {self.failure}"
        said = "equal" if self.apart == 0 else f"{self.apart:.1e} apart (allowed: {self.allowed:.0e})"
        return f"{self.name}: {said}{', ' + self.problem if self.problem else ''}"

    def count_words(self) -> str:
        """The finding in a line, where ``apart`` is a number of host waits."""
        if self.failure:
            return f"{self.name}: {self.failure}"
        return f"{self.name}: {self.apart:.0f}{'' if self.good else f', more than {self.allowed:.0f}'}"


def error_words(error: Exception) -> str:
    """The type of ``error`` and the first line of its text: those of a compiler go on for pages."""
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {' '.join(first.split())}" if first else in_one_line(error)
