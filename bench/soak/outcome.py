"""What became of a fault: survived, refused clearly, or one of the bad ends."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

SURVIVED, REFUSED = "survived", "refused"
BAD = ("wrong result", "hang", "lost checkpoint", "traceback", "wrong exit code", "left over", "not as expected")
"""The bad ends; the first four must never happen, and neither must the others."""


class BadEndError(Exception):
    """A bad end: its kind, one of `BAD`, and what was seen."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(f"{kind}: {words}")
        self.kind = kind
        self.words = words


class FinishedError(Exception):
    """The run had finished before the next fault could be injected: there is one fault less, and nothing is bad."""


@dataclass
class Fault:
    """One injected fault.

    Attributes:
        name: the row of the table.
        case: the case that injected it; ``--only CASE`` injects it again.
        lost: epochs that had to be computed again.
        detect: seconds until the program knew: workers started again, or it ended.
        recover: seconds from the fault, or from the command that goes on, until epochs followed again.
    """

    name: str
    case: str
    recipe: str
    outcome: str = ""
    lost: int | None = None
    detect: float | None = None
    recover: float | None = None
    words: str = ""
    at: float = field(default_factory=time.time)

    def record(self) -> dict[str, Any]:
        """This fault as JSON holds it."""
        return {key: value for key, value in asdict(self).items() if key != "at"}
