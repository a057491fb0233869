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
from bench.pipeline.formulas import Sizes, expected, most_headers, wire_seconds
from bench.pipeline.goals import BASE
from bench.pipeline.table import LEAST_WAITING, markdown, mistaken
from bench.timing.measured import Measured
from bench.timing.rate import find_rate, rounded, wire_share
from bench.timing.session import Session

HERE = Path(__file__).parent
WORK = Path("runs/pipeline")
WORKER = "bench.pipeline.worker"
SHARE, TOLERANCE = 0.76, 0.035
"""Of the epoch of graph parallelism that the wire takes: at least 70% of it is then waiting, the paper's on Reddit."""
SLOWER, MORE_PROBES = 0.85, 2
"""Where it waits less, the links are made slower, so many times."""
SLOW, SLOWEST = 6.0, 60.0
"""Seconds: longer epochs are measured once instead of twice; those beyond the second without another one first."""
MOST = 240.0
"""Seconds: where the wire alone takes longer in an epoch, that time is computed and nothing is measured."""
REASON = 600
"""Characters that are kept of why a run failed, from the end."""


class Bench:
    """One result file, and the measurements that are still missing in it."""

    def __init__(self, options: argparse.Namespace, out: Path) -> None:
        self.out, self.work, self.data, self.patience = out, options.work, options.data, options.patience
        self.end = time.monotonic() + 60 * options.minutes
        self.result: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"cases": {}}
        if options.retry:
            for case in self.result["cases"].values():
                case["failed"] = {}

    def measure(self, case: Case, models: list[str], ways: list[Way]) -> None:
        """What is missing of one graph: first two hosts, then four at half the rate each.

        A run whose workers die is recorded as failed, and a new session goes on with the next.
        """
        for workers in sorted({way.workers for way in ways}):
            here = [way for way in ways if way.workers == workers]
            while (todo := self.missing(case, models, here)) and not self.over:
                with (
                    Lab(workers, None) as lab,
                    Session(lab, WORKER, {}, self.work / "session", self.patience) as session,
                ):
                    for model, way in todo:
                        if self.over or not self._try(case, model, way, lab, session):
                            break

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() > self.end

    def missing(self, case: Case, models: list[str], ways: list[Way]) -> list[tuple[str, Way]]:
        """What is to be measured: neither done nor failed, nor in want of a rate because graph parallelism failed."""
        found = []
        for model in models:
            kept = self.result["cases"].get(case_name(case, model), {})
            done = {name for kind in ("runs", "computed", "failed") for name in kept.get(kind, {})}
            if BASE not in kept.get("failed", {}):
                found += [(model, way) for way in ways if way.name not in done and case.takes(model, way)]
        return found

    def save(self) -> None:
        """Write the result file and the table."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.out.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.result, indent=1) + "\n")
        temporary.rename(self.out)
        self.out.with_suffix(".md").write_text(markdown(self.result))

    def _try(self, case: Case, model: str, way: Way, lab: Lab, session: Session) -> bool:
        """Measure, or say that it failed; whether the session can go on."""
        try:
            self._run(case, model, way, lab, session)
        except LabError:
            raise
        except RuntimeError as error:
            kept = self._kept(case, model)
            kept["failed"][way.name] = str(error)[-REASON:]
            self.save()
            _say(f"{case.name} {model}, {way.name}: failed: {str(error)[-REASON:]}")
            return False
        return True

    def _kept(self, case: Case, model: str) -> dict[str, Any]:
        """What is kept of a case."""
        fresh = {"graph": case.name, "model": model, "layers": case.layers, "runs": {}, "computed": {}, "failed": {}}
        kept: dict[str, Any] = self.result["cases"].setdefault(case_name(case, model), fresh)
        return kept

    def _run(self, case: Case, model: str, way: Way, lab: Lab, session: Session) -> None:
        start, kept, formula = time.monotonic(), self._kept(case, model), self._formula(case, model, way)
        if way.name == BASE:
            found = self._base(case, model, way, lab, session)
        else:
            rate = rounded(kept["rate"] / (HALVES if way.workers > 2 else 1))
            wire = wire_seconds(formula, way, rate)
            if wire > MOST:
                kept["computed"][way.name] = {"seconds": wire, "formula": formula}
                self.save()
                _say(f"{case.name} {model}, {way.name}: the wire alone takes {wire:.0f} s, not measured")
                return
            lab.set_rate(f"{rate}bit")
            found = self._time(case, model, way, session, max(kept["null"]["seconds"], wire))
        headers = self._headers(case, model, way)
        kept["runs"][way.name] = found.to_dict() | {"formula": formula, "headers": headers}
        self.save()
        _say(
            f"{case.name} {model}, {way.name}: {found.seconds:.2f} s, {found.share:.0%} waiting, others "
            f"{found.others:.0%}; took {time.monotonic() - start:.0f} s"
        )

    def _base(self, case: Case, model: str, way: Way, lab: Lab, session: Session) -> Measured:
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
        self._kept(case, model).update(rate=rate, null=null.to_dict(), halo_share=sizes.halo / sizes.nodes)
        return found

    def _time(
        self, case: Case, model: str, way: Way, session: Session, expected_seconds: float, null: bool = False
    ) -> Measured:
        shards = str(case.shards(self.work, self.data, way.parts).absolute())
        epochs, warm = 1 if expected_seconds > SLOW else 2, 0 if expected_seconds > SLOWEST else 1
        return session.timed(epochs, warm, case.settings(model, way), recipe=way.recipe, shards=shards, null=null)

    def _sizes(self, case: Case, way: Way) -> Sizes:
        return Sizes.of(case.shards(self.work, self.data, way.parts))

    def _formula(self, case: Case, model: str, way: Way) -> dict[str, int]:
        return expected(self._sizes(case, way), model, case.layers, way)

    def _headers(self, case: Case, model: str, way: Way) -> dict[str, int]:
        return most_headers(self._sizes(case, way), model, case.layers, way)


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
    parser.add_argument("--retry", action="store_true", help="measure again what failed")
    parser.add_argument("--work", type=Path, default=WORK, help=f"folder for shards and runs ({WORK})")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine (60)")
    parser.add_argument("--out", type=Path, help="result file (result.json beside this script)")
    options = parser.parse_args()
    default = options.work / "quick.json" if options.quick else HERE / "result.json"
    bench = Bench(options, options.out or default)
    bench.result["machine"] = {"processor": processor(), "cores": 2}
    wanted = ["small"] if options.quick else options.graphs
    plan = [(CASES[graph], [m for m in models if m in options.models]) for graph, models in ORDER if graph in wanted]
    ways = [WAYS[name] for name in WAYS if name in (BASE, *options.ways)]
    try:
        for case, models in plan:
            bench.measure(case, models, ways)
    except LabError as error:
        sys.exit(str(error))
    bench.save()
    print(markdown(bench.result))
    if left := sum(len(bench.missing(case, models, ways)) for case, models in plan):
        print(f"the time was used up with {left} measurements to go; the same command goes on")
    sys.exit(1 if mistaken(bench.result) else 0)


def case_name(case: Case, model: str) -> str:
    """The name under which a case is kept."""
    return f"{case.name} {model}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
