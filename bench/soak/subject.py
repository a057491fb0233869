"""What faults are injected into: a tiny run of every recipe, and one of a PyG model by ``halowire.fit``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

GRAPH = "sbm:nodes=400,edges=2400,features=8,classes=3,seed=0"
COMMON = ("--model.hidden", "16", "--eval.every", "50", "--threads", "1", "--quiet")
DEEP = ("--model.name", "gcnii", "--model.layers", "4")
SCRIPT = Path(__file__).with_name("own_model.py")
EVERY = 5
"""Epochs between two checkpoints."""


@dataclass(frozen=True)
class Subject:
    """A run: its name, workers, epochs and further flags, and its recipe, if that is not its name.

    ``own``: a model of one's own, by `fit`.
    """

    name: str
    workers: int
    epochs: int
    flags: tuple[str, ...] = ()
    own: bool = False
    recipe: str = ""

    def words(self, out: str | Path, *more: str, graph: str = GRAPH, workers: int | None = None) -> list[str]:
        """The command that trains into ``out``; ``workers`` is 0 where a launcher says how many."""
        shared = ["--epochs", str(self.epochs), "--checkpoint.every", str(EVERY), "--out", str(out), *more]
        if self.own:
            return [sys.executable, str(SCRIPT), *shared]
        count = self.workers if workers is None else workers
        crowd = ["--workers", str(count)] if count else []
        train = [sys.executable, "-m", "halowire", "train", graph, "--recipe", self.recipe or self.name]
        return [*train, *COMMON, *self.flags, *crowd, *shared]


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("exact", 2, 300),
        Subject("sylvie-a", 2, 300),
        Subject("varco", 2, 300),
        # Between machines the first layer may be chosen at home, which leaves out its code: all runs must choose alike.
        Subject("halowire", 2, 300, ("--wire.first-layer", "local")),
        Subject("gnnpipe", 2, 160, DEEP),
        Subject("hybrid", 4, 80, DEEP),
        Subject("fit", 2, 300, own=True),
        # What is left out by default where it pays, here in any case: partial sums, and the first layer at home.
        Subject("sylvie-a-saving", 2, 300, ("--wire.cover", "on", "--wire.first-layer", "local"), recipe="sylvie-a"),
        # Workers 0 and 1 count as one machine, 2 and 3 as another one: rows and sums cross once, and are handed on.
        Subject("exact-hosts", 4, 120, ("--mesh.hosts", "2", "--wire.cover", "on"), recipe="exact"),
    )
}
EXACT = SUBJECTS["exact"]
COMMANDS = [subject for subject in SUBJECTS.values() if not subject.own]
APART = [subject for subject in SUBJECTS.values() if subject.name not in ("varco", "sylvie-a")]
"""Those that differ in how rows move: `varco` sends as `exact` does, only less; `sylvie-a` is in its saving form."""
