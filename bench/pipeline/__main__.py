"""Times graph parallelism, pipeline, hybrid and one-bit pipeline on links that make the first wait; see README.md."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.aggregate.__main__ import processor
from bench.netlab import Lab, LabError
from bench.pipeline.cases import CASES, HALVES, MODELS, ORDER, WAYS, Case, Way
from bench.pipeline.formulas import Sizes, expected
from bench.pipeline.table import BASE, LEAST_WAITING, markdown, mistaken
from bench.timing.measured import Measured
from bench.timing.rate import find_rate, rounded, transfer_seconds, wire_share
from bench.timing.session import Session

HERE = Path(__file__).parent
WORK = Path("runs/pipeline")
WORKER = "bench.pipeline.worker"
SHARE, TOLERANCE = 0.76, 0.035
"""Of the epoch of graph parallelism that the wire takes: at least 70% of it is then waiting, the paper's on Reddit."""
SLOWER, MORE_PROBES = 0.85, 2
"""Where it waits less, the links are made slower, so many times."""
SLOW = 6.0
"""Seconds: runs whose epochs take longer are measured over one epoch instead of two."""


class Bench:
    """One result file, and the measurements that are still missing in it."""

    def __init__(self, options: argparse.Namespace, out: Path) -> None:
        self.out, self.work, self.data, self.patience = out, options.work, options.data, options.patience
        self.end = time.monotonic() + 60 * options.minutes
        self.result: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"cases": {}}

    def measure(self, case: Case, models: list[str], ways: list[Way]) -> None:
        """What is missing of one graph: first two hosts, then the four of the hybrid at half the rate each."""
        for workers in sorted({way.workers for way in ways}):
            here = [way for way in ways if way.workers == workers]
            todo = [(model, way) for model in models for way in here if not self._has(case, model, way)]
            if not todo or self.over:
                continue
            with Lab(workers, None) as lab, Session(lab, WORKER, {}, self.work / "session", self.patience) as session:
                for model, way in todo:
                    if not self.over and (way.name == BASE or self._has(case, model, WAYS[BASE])):
                        self._run(case, model, way, lab, session)

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() > self.end

    def save(self) -> None:
        """Write the result file and the table."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.out.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.result, indent=1) + "\n")
        temporary.rename(self.out)
        self.out.with_suffix(".md").write_text(markdown(self.result))

    def _has(self, case: Case, model: str, way: Way) -> bool:
        return way.name in self.result["cases"].get(f"{case.name} {model}", {"runs": {}})["runs"]

    def _run(self, case: Case, model: str, way: Way, lab: Lab, session: Session) -> None:
        start = time.monotonic()
        if way.name == BASE:
            kept, found = self._base(case, model, way, lab, session)
        else:
            kept = self.result["cases"][f"{case.name} {model}"]
            rate = rounded(kept["rate"] / (HALVES if way.workers > 2 else 1))
            lab.set_rate(f"{rate}bit")
            sent = sum(self._formula(case, model, way).values())
            wire = transfer_seconds(sent / 2, way.workers // 2, rate)
            found = self._time(case, model, way, session, max(kept["null"]["seconds"], wire))
        formula = self._formula(case, model, way)
        kept["runs"][way.name] = found.to_dict() | {"formula": formula}
        self.save()
        _say(
            f"{case.name} {model}, {way.name}: {found.seconds:.2f} s, {found.share:.0%} waiting, others "
            f"{found.others:.0%}; took {time.monotonic() - start:.0f} s"
        )

    def _base(self, case: Case, model: str, way: Way, lab: Lab, session: Session) -> tuple[dict[str, Any], Measured]:
        """Find the rate; graph parallelism is measured on the way."""
        lab.set_rate(None)
        null = self._time(case, model, way, session, 0.0, null=True)

        def probe(rate: int) -> Measured:
            lab.set_rate(f"{rate}bit")
            found = self._time(case, model, way, session, null.seconds / (1 - SHARE))
            _say(
                f"{case.name} {model}: graph parallel at {rate / 1e6:g} mbit: {wire_share(found, null):.1%} of "
                f"{found.seconds:.2f} s is the wire, {found.share:.1%} waiting"
            )
            return found

        rate, found = find_rate(probe, null, null.halo_bytes, way.workers, SHARE, TOLERANCE)
        for _ in range(MORE_PROBES):
            if found.share < LEAST_WAITING:
                rate = rounded(SLOWER * rate)
                found = probe(rate)
        sizes = self._sizes(case, way)
        kept = {"graph": case.name, "model": model, "layers": case.layers, "rate": rate, "null": null.to_dict()}
        kept |= {"halo_share": sizes.halo / sizes.nodes, "runs": {}}
        self.result["cases"][f"{case.name} {model}"] = kept
        return kept, found

    def _time(
        self, case: Case, model: str, way: Way, session: Session, expected_seconds: float, null: bool = False
    ) -> Measured:
        shards = str(case.shards(self.work, self.data, way.parts).absolute())
        epochs = 1 if expected_seconds > SLOW else 2
        return session.timed(epochs, 1, case.settings(model, way), recipe=way.recipe, shards=shards, null=null)

    def _sizes(self, case: Case, way: Way) -> Sizes:
        return Sizes.of(case.shards(self.work, self.data, way.parts))

    def _formula(self, case: Case, model: str, way: Way) -> dict[str, int]:
        return expected(self._sizes(case, way), model, case.layers, way)


def main() -> None:
    """Measure what is missing, print the tables, write the files; exit code 1 if bytes differ from the formulas."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__)
    graphs = [name for name in CASES if name != "small"]
    parser.add_argument("--data", type=Path, help="folder with the .npz graphs")
    parser.add_argument("--quick", action="store_true", help="6,000 nodes, 8 layers, for development")
    parser.add_argument("--graphs", nargs="+", default=graphs, choices=graphs)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no measurement after so many (60)")
    parser.add_argument("--work", type=Path, default=WORK, help=f"folder for shards and runs ({WORK})")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine (60)")
    parser.add_argument("--out", type=Path, help="result file (result.json beside this script)")
    options = parser.parse_args()
    default = options.work / "quick.json" if options.quick else HERE / "result.json"
    bench = Bench(options, options.out or default)
    bench.result["machine"] = {"processor": processor(), "cores": 2}
    wanted = ["small"] if options.quick else options.graphs
    ways = [WAYS[name] for name in WAYS if name in (BASE, *options.ways)]
    try:
        for graph, models in ORDER:
            if graph in wanted:
                bench.measure(CASES[graph], [model for model in models if model in options.models], ways)
    except LabError as error:
        sys.exit(str(error))
    bench.save()
    print(markdown(bench.result))
    if bench.over:
        print("the time was used up before all was measured; the same command goes on")
    sys.exit(1 if mistaken(bench.result) else 0)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
