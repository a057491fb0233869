"""A session of recipes: how long their epochs take, and how many of them they need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.netlab import Lab
from bench.timing.measured import Measured
from bench.timing.session import Session

WORKER = "bench.slow_network.worker"


class RecipeSession(Session):
    """``with RecipeSession(lab, shards, folder) as session``: workers on all hosts that hold ``shards``."""

    def __init__(self, lab: Lab, shards: Path, folder: Path, patience: float = 0.0) -> None:
        """As a :class:`Session`."""
        super().__init__(lab, WORKER, {"shards": str(shards.absolute())}, folder, patience)

    def time(
        self, model: str, recipe: str, epochs: int, warm: int, *, null: bool = False, settings: dict[str, Any]
    ) -> Measured:
        """Train ``warm + epochs`` epochs without evaluation; what the last ``epochs`` took."""
        return self.timed(epochs, warm, {"model.name": model, **settings}, recipe=recipe, target=None, null=null)

    def learn(self, model: str, recipe: str, epochs: int, every: int, target: float | None) -> list[tuple[int, float]]:
        """Train until validation reaches ``target``, at most ``epochs``; [(epochs done, validation metric)]."""
        settings = {"epochs": epochs, "eval.every": every, "model.name": model}
        run, _ = self.ask(recipe=recipe, settings=settings, stop_after=epochs + 1, target=target, null=False)
        events = [json.loads(line) for line in (run / "events-0.jsonl").read_text().splitlines()]
        return [(event["epoch"] + 1, event["val"]) for event in events if event["event"] == "eval"]
