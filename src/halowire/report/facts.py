"""The key numbers of a run come from its summary, and where that lacks some, from its events; a label names the run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from halowire.events import best_of
from halowire.report import series
from halowire.report.run_files import RunFiles
from halowire.report.units import Json, as_list, as_object, finite, number, share

COLOURS = 8
"""How many colours the style sheet has for runs; with more runs they repeat."""
MOST_WORKERS = 100_000
"""A file that says more workers than this is damaged; a page lists every one of them."""
SPELT = {"recipe": "{}", "workers": "{} workers", "graph": "{}", "model": "{}", "seed": "seed {}"}
"""The facts that may tell runs apart, and how a label spells each."""


@dataclass(frozen=True)
class ShownRun:
    """A run on a page: its files, key numbers and label; runs that differ only in their seed share group and colour."""

    files: RunFiles
    facts: Json
    label: str
    group: str
    slot: int

    @property
    def metric(self) -> str:
        """The metric's name, as in `summary.json`."""
        return str(self.facts["metric"])


def shown_runs(runs: list[RunFiles]) -> list[ShownRun]:
    """The runs of a page, each with its key numbers, its label and its colour."""
    known = [facts(run) for run in runs]
    names = labels(runs, known)
    shared = groups(known, names)
    slot = {group: index % COLOURS for index, group in enumerate(dict.fromkeys(shared))}
    return [
        ShownRun(run, numbers, name, group, slot[group])
        for run, numbers, name, group in zip(runs, known, names, shared, strict=True)
    ]


def facts(run: RunFiles) -> Json:
    """`summary.json`, completed from the events, so that a run that was killed still has a headline."""
    derived = from_events(run)
    known = {**derived, **{key: value for key, value in run.summary.items() if value is not None}}
    # Before the first evaluation there is no best epoch, and training writes -1.
    known["best_epoch"] = known["best_epoch"] if number(known["best_epoch"]) >= 0 else None
    return known | {"waiting": share(known["wait_seconds"], known["epoch_seconds"])}


def from_events(run: RunFiles) -> Json:
    """The numbers of `summary.json`, under the same keys, as far as they can be worked out from the events."""
    start, config = run.first.start, run.config
    result: Json = {
        "graph": start.get("graph", run.folder.name),
        "recipe": start.get("recipe", config.get("recipe", "")),
        "workers": start.get("workers", len(run.ranks) or 1),
        "seed": config.get("seed"),
        "metric": start.get("metric", "accuracy"),
        "epochs": len(run.epochs()),
        "status": run.first.end.get("status", "unfinished"),
    }
    model = config.get("model")
    result["model"] = model.get("name", "") if isinstance(model, dict) else model or ""
    loss = series.known(series.losses(run))
    result["train_loss"] = loss[-1] if loss else math.nan
    result.update(best_evaluation(run))
    for key, points in (("epoch_seconds", series.seconds(run)), ("wait_seconds", series.waits(run))):
        values = series.known(points)
        result[key] = median(values) if values else math.nan
    for key, points in (("wire_bytes", series.wire_bytes(run)), ("gradient_bytes", series.gradient_bytes(run))):
        values = series.known(points)
        result[f"{key}_per_epoch"] = fmean(values) if values else math.nan
        result[f"{key}_total"] = sum(values) if values else math.nan
    memory = finite(number(rank.end.get("peak_memory_bytes")) for rank in run.present)
    result["device"] = start.get("device")
    result["peak_memory_bytes"] = max(memory) if memory else math.nan
    return result


def best_evaluation(run: RunFiles) -> Json:
    """The metrics at the evaluation with the best validation."""
    scored = [event for _, event in sorted(run.first.evals.items()) if not math.isnan(number(event.get("val")))]
    if not scored:
        return {"best_epoch": None, "val": math.nan, "test": math.nan}
    best_val = best_of(str(run.first.start.get("metric")))(number(event["val"]) for event in scored)
    top = next(event for event in scored if number(event["val"]) == best_val)
    return {"best_epoch": top["epoch"], "val": top["val"], "test": top.get("test")}


def served_layers(summary: Json) -> dict[str, Json]:
    """The PyG layers in `summary.json` by name; empty if the run has no such layers, or an older version wrote it."""
    named = as_object(summary.get("layer_paths")).items()
    return {str(name) or "the model": one for name, one in named if isinstance(one, dict)}


def notes(one: ShownRun) -> list[str]:
    """What a reader must know before trusting the numbers of this run, one sentence each."""
    run, found = one.files, []
    if not run.summary:
        found.append("The run left no summary.json; the key numbers were worked out from its events.")
    status = one.facts.get("status")
    if status in ("stopped", "unfinished"):
        done = len(run.epochs())
        planned = number(run.config.get("epochs"))
        of = f" of {planned:.0f}" if planned > done else ""
        how = "was stopped" if status == "stopped" else "broke off"
        found.append(f"The run {how} after {done}{of} epochs.")
    found += [turn for event in run.first.turns if (turn := _turn(event))]
    lost = [epoch for epoch, value in series.losses(run) if math.isnan(value)]
    if lost:
        more = f", and in {len(lost) - 1} later ones" if len(lost) > 1 else ""
        found.append(
            f"The loss was not a number in epoch {lost[0]}{more}: lower the learning rate (--optim.lr) or "
            "clip the gradients (--optim.clip)."
        )
    there = {rank.rank for rank in run.present}
    missing = [rank for rank in range(workers_said(one.facts) or 1) if rank not in there]
    if missing:
        names = ", ".join(f"events-{rank}.jsonl" for rank in missing[:4]) + (", …" if len(missing) > 4 else "")
        found.append(
            f"Missing: {names}. Figures of time and bytes cover {len(there)} of {len(there) + len(missing)} workers."
        )
    damaged = sum(rank.unreadable for rank in run.ranks)
    if damaged:
        lines = "1 line of the events was" if damaged == 1 else f"{damaged} lines of the events were"
        found.append(f"{lines} left out: not readable, as when a run is killed while it writes.")
    return found + [str(warning) for warning in as_list(as_object(one.facts.get("partition")).get("warnings"))]


def workers_said(facts: Json) -> int:
    """The number of workers that the run says it had; 0 where it says none, or more than any run has."""
    workers = number(facts["workers"])
    return int(workers) if 1 <= workers <= MOST_WORKERS else 0


def _turn(event: Json) -> str:
    """The sentence about a moment at which the run changed its course; empty where the event lacks its numbers."""
    epoch, rate = number(event.get("epoch")), number(event.get("lr"))
    if event.get("event") == "lowered" and math.isfinite(epoch) and math.isfinite(rate):
        why = str(event.get("why", "")).strip()
        return f"From epoch {epoch:.0f} on the learning rate was lowered to {rate:g}: {why}."
    then, now = number(event.get("before")), number(event.get("workers"))
    if math.isfinite(epoch) and math.isfinite(then) and math.isfinite(now):
        return (
            f"After epoch {epoch:.0f} the run went on with {now:.0f} instead of {then:.0f} workers: the graph was cut "
            "again, and the first epoch was a fresh one."
        )
    return ""


def labels(runs: list[RunFiles], known: list[Json]) -> list[str]:
    """The shortest names that tell the runs apart: the recipe, with workers, graph or seed where needed."""
    for more in ((), ("workers",), ("seed",), ("graph",), ("model",), tuple(SPELT)[1:]):
        names = [
            " ".join(SPELT[key].format(one.get(key)) for key in ("recipe", *more) if one.get(key) not in (None, ""))
            for one in known
        ]
        if all(names) and len(set(names)) == len(names):
            return names
    folders = [Path(run.folder).name or str(run.folder) for run in runs]
    if len(set(folders)) == len(folders):
        return folders
    return [f"{name} ({index})" for index, name in enumerate(folders, 1)]


def groups(known: list[Json], names: list[str]) -> list[str]:
    """For every run, the name that it shares with runs that differ only in their seed, or its own name."""
    alike = [tuple(str(one.get(key)) for key in ("graph", "recipe", "model", "workers")) for one in known]
    shared = [re.sub(r" ?seed \S+$", "", name) for name in names]
    if len(set(alike)) == len(names) or len({*zip(alike, shared, strict=True)}) != len(set(shared)) or not all(shared):
        return names
    return shared
