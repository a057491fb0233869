"""Curves and totals of a run are taken from its events and combined over the ranks; TensorBoard files hold them too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from statistics import fmean

from halowire.errors import InputError
from halowire.report.run_files import RankEvents, RunFiles, read_run
from halowire.report.units import Json, Points, as_list, as_object, finite, number

PHASES = ("forward", "backward", "wait", "pack", "reduce", "optimise")
WAITING = ("wait", "reduce")
"""Phases in which a worker waits: for halo rows, and for the sum of the weight gradients."""


def known(points: Points) -> list[float]:
    """The values of a curve that are known."""
    return finite(value for _, value in points)


def mean_curve(curves: Iterable[Points]) -> Points:
    """At every epoch, the mean of the curves that have a value there; NaN if no curve has one."""
    values: dict[int, list[float]] = {}
    for points in curves:
        for epoch, value in points:
            values.setdefault(epoch, []).append(value)
    return [(epoch, fmean(found) if (found := finite(values[epoch])) else math.nan) for epoch in sorted(values)]


def over_ranks(run: RunFiles, value: Callable[[Json], object], combine: Callable[[list[float]], float]) -> Points:
    """One value per epoch: ``value`` of every rank's event, put together by ``combine``."""
    points: Points = []
    for epoch in run.epochs():
        values = finite(number(value(rank.epochs[epoch])) for rank in run.ranks if epoch in rank.epochs)
        points.append((epoch, combine(values) if values else math.nan))
    return points


def losses(run: RunFiles) -> Points:
    """The training loss of every epoch, which all ranks share."""
    return [(epoch, number(event.get("loss"))) for epoch, event in sorted(run.first.epochs.items())]


def learning_rates(run: RunFiles) -> Points:
    """The learning rate of every epoch."""
    return [(epoch, number(event.get("lr"))) for epoch, event in sorted(run.first.epochs.items())]


def metrics(run: RunFiles, split: str) -> Points:
    """The metric on train, val or test at every evaluation."""
    return [(epoch, number(event.get(split))) for epoch, event in sorted(run.first.evals.items())]


def seconds(run: RunFiles) -> Points:
    """The time of every epoch on its slowest rank."""
    return over_ranks(run, lambda event: event.get("seconds"), max)


def waits(run: RunFiles) -> Points:
    """Seconds that a rank waited for the wire in every epoch, mean of the ranks."""
    return over_ranks(run, lambda event: waited(as_object(event.get("phases"))), fmean)


def wire_bytes(run: RunFiles) -> Points:
    """Halo and stage bytes that all ranks sent in every epoch."""
    return over_ranks(run, lambda event: event.get("wire_bytes"), sum)


def stage_bytes(run: RunFiles) -> Points:
    """Bytes between stages, a part of :func:`wire_bytes`, that all ranks sent in every epoch."""
    return over_ranks(run, lambda event: event.get("stage_bytes", 0), sum)


def halo_bytes(run: RunFiles) -> Points:
    """Halo bytes that all ranks sent in every epoch."""
    return over_ranks(run, lambda event: number(event.get("wire_bytes")) - number(event.get("stage_bytes", 0)), sum)


def gradient_bytes(run: RunFiles) -> Points:
    """Weight gradient bytes that all ranks sent in every epoch."""
    return over_ranks(run, lambda event: event.get("gradient_bytes"), sum)


def waited(phases: Json) -> float:
    """The seconds of an epoch in which a worker waited for the wire; NaN where there are no phases."""
    spent = finite(number(phases.get(name)) for name in WAITING)
    return sum(spent) if spent else math.nan


def steady(rank: RankEvents) -> list[Json]:
    """A rank's epochs, without the first, which warms up, if there are three or more."""
    events = [event for _, event in sorted(rank.epochs.items())]
    return events[1:] if len(events) > 2 else events


def mean_phases(rank: RankEvents) -> dict[str, float]:
    """Mean seconds per epoch of every phase, and of ``other``, the time that belongs to no phase."""
    events = steady(rank)
    phases = [as_object(event.get("phases")) for event in events]
    names = [*PHASES, *sorted({name for spent in phases for name in spent} - set(PHASES))]
    result = {}
    for name in names:
        if values := finite(number(spent.get(name, 0.0)) for spent in phases):
            result[name] = fmean(values)
    whole = finite(number(event.get("seconds")) for event in events)
    rest = fmean(whole) - sum(result.values()) if whole else 0.0
    if result and rest > 0.01 * fmean(whole):
        result["other"] = rest
    return {name: value for name, value in result.items() if value > 0}


def exchange_totals(run: RunFiles) -> list[tuple[int, str, float, float]]:
    """(layer, direction, bytes per epoch of all ranks, mean seconds a rank waited per epoch) of every exchange."""
    sent: dict[tuple[int, str], float] = {}
    late: dict[tuple[int, str], float] = {}
    found = [steady(rank) for rank in run.ranks]
    # Ranks that a resumed run no longer has sent in fewer epochs, and count so much less.
    every, most = sum(map(len, found)), max(map(len, found), default=0)
    for item in chain.from_iterable(exchanges_of(event) for events in found for event in events):
        layer = number(item.get("layer"))
        key = (int(layer) if math.isfinite(layer) else 0, str(item.get("direction", "")))
        sent[key] = sent.get(key, 0.0) + number(item.get("bytes", 0)) / most
        late[key] = late.get(key, 0.0) + number(item.get("wait", 0)) / every
    order = {"forward": 0, "backward": 1, "stage forward": 2, "stage backward": 3}
    return [
        (layer, direction, sent[layer, direction], late[layer, direction])
        for layer, direction in sorted(sent, key=lambda key: (order.get(key[1], 4), key[0], key[1]))
    ]


def code_errors(run: RunFiles, direction: str) -> dict[int, Points]:
    """For every layer, the relative squared error of coding at the epochs that measured it, mean of the ranks."""
    found: dict[int, dict[int, list[float]]] = {}
    for rank in run.ranks:
        for epoch, event in rank.epochs.items():
            for item in exchanges_of(event):
                layer, error = number(item.get("layer")), number(item.get("error"))
                if item.get("direction") == direction and math.isfinite(error) and math.isfinite(layer):
                    found.setdefault(int(layer), {}).setdefault(epoch, []).append(error)
    return {
        layer: [(epoch, fmean(values)) for epoch, values in sorted(found[layer].items())] for layer in sorted(found)
    }


def mean_code_errors(run: RunFiles, direction: str) -> Points:
    """The curves of :func:`code_errors` as one: the mean of the layers."""
    return mean_curve(code_errors(run, direction).values())


def exchanges_of(event: Json) -> list[Json]:
    """The exchanges of an epoch; empty if it has none."""
    return [item for item in as_list(event.get("exchanges")) if isinstance(item, dict)]


def write_tensorboard(run: Path) -> Path:
    """Write ``run``/tensorboard: loss, learning rate, metrics, seconds, waiting, phases and bytes per epoch.

    The call is refused if tensorboard is not installed or the folder holds no run. Earlier files are replaced.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError(
            "tensorboard is not installed: pip install 'halowire[report]', or leave --tensorboard out"
        ) from error
    found = read_run(Path(run))
    folder = Path(run) / "tensorboard"
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    curves = {
        "loss/train": losses(found),
        "optim/lr": learning_rates(found),
        **{f"metric/{split}": metrics(found, split) for split in ("train", "val", "test")},
        "time/epoch_seconds": seconds(found),
        "time/wait_seconds": waits(found),
        "wire/bytes": wire_bytes(found),
        "wire/gradient_bytes": gradient_bytes(found),
    }
    begun = number(found.first.start.get("time"))
    with SummaryWriter(log_dir=str(folder)) as writer:
        for name, points in curves.items():
            for epoch, value in points:
                if math.isfinite(value):
                    writer.add_scalar(name, value, epoch, walltime=begun if math.isfinite(begun) else None)
    return folder
