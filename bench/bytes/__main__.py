"""What need not travel: rows on the cut, bytes of set-up and of an epoch, memory, seconds; see README.md.

    python -m bench.bytes --data FOLDER [--graphs debian,ogbn-arxiv] [--parts 4,16] [--steps rows,epochs,check]
    sudo python -m bench.bytes --data FOLDER --steps times --graphs debian,tolokers,wordnet

FOLDER holds the `.npz` graphs; `debian` is built in. Everything that is finished is kept in `result.json`, so that the
tables can be built in pieces; `--again` measures it anew. `--turns 1 --epochs 1 --out FILE` makes a short trial of the
times.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.accuracy.tasks import find
from bench.bytes.counted import count
from bench.bytes.cuts import Cuts
from bench.bytes.real import CHECKED, train
from bench.bytes.table import tables
from bench.bytes.times import Length, measure_times
from bench.bytes.ways import LAYERS, WAYS, Way

HERE = Path(__file__).parent
GRAPHS = "debian,ogbn-arxiv,coauthor-physics,amazon-computers,tolokers,wordnet"
STEPS = ("rows", "epochs", "check", "times")
SMALL = 4
"""Parts of the cuts that real workers train on."""


class Results:
    """The result file: what is in it is not measured again."""

    def __init__(self, path: Path, again: bool) -> None:
        self.path, self.again = path, again
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def lacks(self, step: str, key: str) -> bool:
        """Whether ``key`` of ``step`` is to be measured."""
        return self.again or key not in self.found.get(step, {})

    def get(self, step: str, key: str, measure: Callable[[], Any]) -> Any:
        """The result ``key`` of ``step``, measured now unless it is there."""
        kept = self.found.setdefault(step, {})
        if self.lacks(step, key):
            kept[key] = measure()
            temporary = self.path.with_suffix(".tmp")
            temporary.write_text(json.dumps(self.found, indent=1) + "\n")
            temporary.rename(self.path)
            print(f"{step} {key}: {kept[key]}", flush=True)
        return kept[key]


def graph_steps(name: str, asked: argparse.Namespace, steps: list[str], cuts: Cuts, results: Results) -> None:
    """All steps of one graph but the times."""
    methods, depths = asked.methods.split(","), [int(layers) for layers in asked.layers.split(",")]
    for number in [int(parts) for parts in asked.parts.split(",")]:
        if "rows" in steps:
            for method in methods:
                results.get("rows", f"{name} {number} {method}", partial(cuts.rows, number, method))
        for layers in depths if "epochs" in steps else ():
            for label, way in ((label, way) for label, way in WAYS.items() if way.method in methods):
                key = f"{name} {number} {layers} {label}"
                results.get("epochs", key, partial(counted, cuts, number, way, layers))
        for label in CHECKED if "check" in steps and number == SMALL else ():
            results.get("check", f"{name} {label}", partial(trained, cuts, WAYS[label]))


def counted(cuts: Cuts, parts: int, way: Way, layers: int) -> dict[str, Any]:
    """What workers that are threads send."""
    return count(cuts.shards(parts, way.method), way, layers)


def trained(cuts: Cuts, way: Way) -> dict[str, Any]:
    """What real workers send."""
    return train(cuts.folder(SMALL, way.method), way, LAYERS[0], SMALL)


def main() -> None:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.bytes", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the .npz graphs")
    parser.add_argument("--graphs", default=GRAPHS)
    parser.add_argument("--parts", default="4,16")
    parser.add_argument("--layers", default="3,2", help="layers of the models of the step epochs")
    parser.add_argument("--methods", default="metis,hypergraph", help="partitioners of the cuts")
    parser.add_argument("--steps", default="rows,epochs,check")
    parser.add_argument("--turns", type=int, default=Length.turns, help="of the step times: turns of all ways")
    parser.add_argument(
        "--epochs", type=int, default=Length.epochs, help="of the step times: epochs of a way in a turn"
    )
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    parser.add_argument("--work", type=Path, default=Path("runs/bytes"), help="folder for owners and shards")
    parser.add_argument("--again", action="store_true", help="measure finished cases anew")
    asked = parser.parse_args()
    steps = asked.steps.split(",")
    if unknown := set(steps) - set(STEPS):
        raise SystemExit(f"--steps has {', '.join(sorted(unknown))}; give some of {', '.join(STEPS)}")
    length = Length(asked.turns, asked.epochs)
    if min(asked.turns, asked.epochs) < 1:
        parser.error(f"--turns is {asked.turns} and --epochs {asked.epochs}; both are at least 1")
    if "times" in steps and length != Length() and asked.out == parser.get_default("out"):
        parser.error("other --turns or --epochs are a trial: give it an --out of its own")
    torch.set_num_threads(1)
    results = Results(asked.out, asked.again)
    for name in asked.graphs.split(","):
        cuts = Cuts(name, find(name, asked.data), asked.work)
        graph_steps(name, asked, steps, cuts, results)
        if "times" in steps:
            measure_times(name, cuts, results, length)
    text = tables(results.found)
    asked.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
