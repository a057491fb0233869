"""Refusals before any work is done: what a run cannot use, or would silently ignore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halowire.graph import Graph
from halowire.kernels import InputError
from halowire.partition import read_manifest
from halowire.partition.manifest import is_shard_folder
from halowire.train.config import Config
from halowire.train.job import Job

MAY_CHANGE = ("epochs", "early_stop", "threads", "device", "deadline", "eval.every", "checkpoint.every")
"""Settings that a resumed run may change."""


def is_shards(graph: Any) -> bool:
    """Whether ``graph`` names a folder of shards."""
    return isinstance(graph, str | Path) and is_shard_folder(Path(graph))


def refuse_untrainable(graph: Graph) -> None:
    """Refuse a graph that lacks what training needs."""
    needed = {
        "features (x)": graph.x, "labels (y)": graph.y, "train_mask": graph.train_mask, "val_mask": graph.val_mask,
        "test_mask": graph.test_mask,
    }  # fmt: skip
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise InputError(
            f"graph {graph.name!r} has no {', '.join(missing)}; training needs features, labels and a split"
        )


def refuse_idle_settings(shards: Path, workers: int, config: Config, default: Config) -> None:
    """Refuse what does not fit a folder of shards, or comes too late for it."""
    manifest = read_manifest(shards)
    if manifest["num_parts"] != workers:
        raise InputError(
            f"{shards} holds {manifest['num_parts']} shards, but there are {workers} workers; they must be equal"
        )
    if config.task.inductive and not manifest["inductive"]:
        raise InputError(
            f"{shards} was cut for transductive training; cut it again with `halowire partition --inductive`"
        )
    if config.graph != default.graph:
        raise InputError(
            f"{shards} holds shards: --graph.* settings belong to `halowire partition`, which read the graph"
        )
    if config.partition.method not in (default.partition.method, manifest.get("method")):
        raise InputError(
            f"{shards} was cut by {manifest.get('method')}; --partition.method {config.partition.method} belongs to "
            "`halowire partition`"
        )
    # Shards from before this was recorded were cut as `auto`.
    if config.partition.metis not in (default.partition.metis, manifest.get("metis", "auto")):
        raise InputError(
            f"{shards} was cut with --partition.metis {manifest.get('metis', 'auto')}; "
            f"--partition.metis {config.partition.metis} belongs to `halowire partition`"
        )


def refuse_other_job(job: Job, graph: Any) -> None:
    """Refuse to resume a run with another graph, number of workers or setting than it had."""
    if not (job.run / "config.json").exists():
        return
    before = Job.read(job.run)
    pairs = {"the graph": (before.source, job.source), "--workers": (before.workers, job.workers)}
    old, new = before.config.flat(), job.config.flat()
    pairs |= {f"--{name.replace('_', '-')}": (old[name], new[name]) for name in new if name not in MAY_CHANGE}
    if isinstance(graph, Graph) and is_shard_folder(job.shards):
        manifest = read_manifest(job.shards)
        sizes = (manifest["num_nodes"], manifest["num_edges"]), (graph.num_nodes, graph.num_edges)
        pairs["the graph's size (nodes, edges)"] = sizes
    for name, (then, now) in pairs.items():
        if then != now:
            raise InputError(
                f"the run in {job.run} had {name} {then}, now it is {now}; resume with the same, or train elsewhere"
            )
