"""A job is what a worker process needs to know; it is written to `config.json` of the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from halowire.errors import InputError, in_one_line
from halowire.files import write_json
from halowire.graph import Graph
from halowire.inputs import read_json
from halowire.partitioning import is_shard_folder, read_manifest
from halowire.training.config import Config
from halowire.training.rule import mesh_of
from halowire.training.rules import refuse

PREDICTIONS = "predictions.npy"
"""The file of a run folder with the predictions of a user's own model, which `halowire predict` cannot build."""
MESH_SHAPE = ("mesh.stages", "mesh.parts", "mesh.chunks", "mesh.split", "mesh.hosts")
"""Settings of the mesh that a resumed run may change; then the wire starts afresh."""
MAY_CHANGE = (
    "epochs", "early_stop", "threads", "device", "deadline", "on_nan", "eval.every", "checkpoint.every",
    "checkpoint.minutes", "checkpoint.keep", *MESH_SHAPE,
)  # fmt: skip
"""Settings that a resumed run may change."""


@dataclass(frozen=True)
class Job:
    """A run: its folder, its graph, its shards, its settings."""

    run: Path
    graph: str
    source: str
    shards: Path
    workers: int
    config: Config
    resume: bool = False
    quiet: bool = False
    tensorboard: bool = False
    table: bool = True
    own_model: bool = False

    @property
    def parts(self) -> int:
        """How many parts the graph is cut into."""
        return mesh_of(self.config, self.workers).parts

    @property
    def joining(self) -> tuple[float, str, int]:
        """How the workers join: the deadline, what carries rows between devices, and the number of machines."""
        return self.config.deadline, self.config.transport, self.config.mesh.hosts

    def on_device(self, device: str) -> Job:
        """This job on another ``device``; on the CPU, whatever carried rows between GPUs, Gloo does."""
        transport = {"transport": "auto"} if device == "cpu" else {}
        return replace(self, config=self.config.replace({"device": device} | transport))

    def write(self) -> None:
        """Write `config.json`: the settings, and under ``run`` everything else."""
        rest = {name: value for name, value in vars(self).items() if name not in ("run", "config")}
        # Shards in the run folder are recorded by their name alone, so that the folder can be moved.
        inside = self.shards.parent == self.run
        rest["shards"] = self.shards.name if inside else str(self.shards.absolute())
        write_json(self.run / "config.json", {**self.config.to_dict(), "run": rest})

    @staticmethod
    def read(run: Path) -> Job:
        """Read the job of a run folder."""
        try:
            values = read_json(run / "config.json")
            rest = values.pop("run")
            rest["shards"] = run / rest["shards"]
            job = Job(run=run, config=Config.from_dict(values), **rest)
            job._refuse_wrong()
            return job
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{run} is not a run folder: it holds no config.json") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{run / 'config.json'} cannot be read as the settings of a run ({in_one_line(error)})"
            ) from error

    def _refuse_wrong(self) -> None:
        """Refuse values of other types than the fields', and settings that no run can have."""
        for name, kind in get_type_hints(Job).items():
            value = getattr(self, name)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise ValueError(f"{name} is {value!r}, expected a value of type {kind.__name__}")
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}, expected at least 1")
        # How many threads are too many depends on the machine, and the run may have been made on another one.
        refuse(self.config.replace({"threads": 0}))


def changes_since(before: Job, workers: int, config: Config, fixed: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """(flag, value then, value now) of the number of workers and of the ``fixed`` settings that differ."""
    old, new = before.config.flat(), config.flat()
    values = [("--workers", before.workers, workers)]
    values += [(f"--{name.replace('_', '-')}", old[name], new[name]) for name in fixed]
    return (value for value in values if value[1] != value[2])


def refuse_raised(before: float, now: float) -> None:
    """Refuse a learning rate that is higher ``now`` than in the run that is resumed; a lower one may end divergence."""
    if now > before:
        raise InputError(
            f"the run to resume had --optim.lr {before:g}, now it is {now:g}; a resumed run may only lower it"
        )


def refuse_other_job(job: Job, graph: Any) -> None:
    """Refuse to resume a run with another graph or setting than it began with; the number of workers may change.

    Where the number of parts changes, the graph may come from another place, such as a folder of other shards.
    """
    if not (job.run / "config.json").exists():
        return
    before = Job.read(job.run)
    spans = job.config.spans_the_run
    fixed = [name for name in job.config.flat() if name not in MAY_CHANGE or (name == "epochs" and spans)]
    refuse_raised(before.config.optim.lr, job.config.optim.lr)
    fixed.remove("optim.lr")
    _refuse_changed(job, changes_since(before, before.workers, job.config, fixed))
    if before.parts == job.parts:
        _refuse_changed(job, [("the graph", before.source, job.source)])
    if isinstance(graph, Graph):
        refuse_other_sizes(job, graph_sizes(graph))
    elif job.shards != before.shards and is_shard_folder(job.shards):
        refuse_other_sizes(job, read_manifest(job.shards))


def graph_sizes(graph: Graph) -> dict[str, int]:
    """The sizes of ``graph`` under the names that a manifest of shards has for them."""
    return {"num_nodes": graph.num_nodes, "num_edges": graph.num_edges}


def refuse_other_sizes(job: Job, now: Mapping[str, Any]) -> None:
    """Refuse to go on with a graph that has ``now`` another number of nodes or edges than the run's shards say."""
    shards = Job.read(job.run).shards if (job.run / "config.json").exists() else job.shards
    if is_shard_folder(shards):
        before = read_manifest(shards)
        # The shards of a run that learns links lack the edges that are held out.
        names = ("num_nodes",) if job.config.task.kind == "link" else ("num_nodes", "num_edges")
        sizes = tuple(before[name] for name in names), tuple(now[name] for name in names)
        _refuse_changed(job, [("the graph's size (nodes, edges)", *sizes)])


def _refuse_changed(job: Job, values: Iterable[tuple[str, Any, Any]]) -> None:
    for name, then, now in values:
        if then != now:
            raise InputError(
                f"the run in {job.run} had {name} {then}, now it is {now}; resume with the same, or train elsewhere"
            )


def holds_parts(shards: Path, count: int) -> bool:
    """Whether the folder holds shards of ``count`` parts: a run that goes on with others cuts its graph again."""
    return is_shard_folder(shards) and bool(read_manifest(shards)["num_parts"] == count)
