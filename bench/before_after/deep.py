"""Seconds of an epoch of 32-layer models, graph parallel, on two hosts with one core each and a fast link.

It runs in either checkout: `bench.before_after` starts it as a file, with that checkout's Python and modules.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.netlab import Lab
from bench.pipeline.__main__ import WORKER
from bench.pipeline.cases import CASES, WAYS
from bench.timing.session import Session

MODELS = ("gcnii", "gcn")
RATE = "4gbit"
"""A link for which nobody waits long, so that the cost of sending a message shows."""
EPOCHS = 7


def main() -> None:
    """Measure both models in one session, and write the fastest epoch of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    case, way = CASES["coauthor-physics"], WAYS["graph parallel"]
    shards = str(case.shards(options.work, options.data, way.parts).absolute())
    seconds = {}
    with Lab(way.workers, None) as lab, Session(lab, WORKER, {}, options.work / "session", 5) as session:
        lab.set_rate(RATE)
        for model in MODELS:
            settings = case.settings(model, way)
            run = session.timed(EPOCHS, 1, settings, recipe=way.recipe, shards=shards, null=False)
            seconds[f"{model}, 32 layers"] = run.fastest
    options.out.write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
