"""Refusals before any work is done: what a run cannot use, or would silently ignore."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from halowire.errors import InputError
from halowire.graph import Graph
from halowire.partitioning import EDGE, is_shard_folder, links_record, read_manifest
from halowire.schedules.mesh import Mesh
from halowire.schedules.stage_split import parse_split
from halowire.training.config import Config, MeshConfig
from halowire.training.job import Job
from halowire.training.refuse_gat import refuse_gat
from halowire.training.runner import mesh_of, pipelined

MAY_CHANGE = ("epochs", "early_stop", "threads", "device", "deadline", "eval.every", "checkpoint.every")
"""Settings that a resumed run may change."""


def is_shards(graph: Any) -> bool:
    """Whether ``graph`` names a folder of shards."""
    return isinstance(graph, str | Path) and is_shard_folder(Path(graph))


def refuse_untrainable(graph: Graph, link: bool = False) -> None:
    """Refuse a graph that lacks what training needs; ``link``: its edges are learnt, so that it needs no labels."""
    if link and graph.x is not None:
        return
    needed = {"features (x)": graph.x} if link else {
        "features (x)": graph.x, "labels (y)": graph.y, "train_mask": graph.train_mask, "val_mask": graph.val_mask,
        "test_mask": graph.test_mask,
    }  # fmt: skip
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise InputError(
            f"graph {graph.name!r} has no {', '.join(missing)}; training needs "
            + ("features" if link else "features, labels and a split")
        )


def refuse_edge_tensors(names: Iterable[str]) -> None:
    """Refuse what edges have beside weights, which the built-in models do not use."""
    if names := list(names):
        raise InputError(
            f"the edges have {', '.join(names)}, of which gcn and sage make no use; train a model of your own with "
            "halowire.fit or halowire.distribute, or leave them out"
        )


def refuse_idle_settings(shards: Path, num_parts: int, config: Config, default: Config) -> None:
    """Refuse what does not fit a folder of shards, or comes too late for it."""
    manifest = read_manifest(shards)
    if manifest["num_parts"] != num_parts:
        raise InputError(
            f"{shards} holds {manifest['num_parts']} shards, but the workers are {num_parts} parts; they must be equal"
        )
    if config.task.inductive and not manifest["inductive"]:
        raise InputError(
            f"{shards} was cut for transductive training; cut it again with `halowire partition --inductive`"
        )
    files = manifest["parts"][0]["shard"]["files"]
    refuse_edge_tensors(name.removeprefix(EDGE) for name in files if name.startswith(EDGE))
    if config.task.kind == "link":
        _refuse_other_links(shards, config)
    if config.graph != default.graph:
        raise InputError(
            f"{shards} holds shards: --graph.* settings belong to `halowire partition`, which read the graph"
        )
    if config.partition.method not in (default.partition.method, manifest.get("method")):
        raise InputError(
            f"{shards} was cut by {manifest.get('method')}; --partition.method {config.partition.method} belongs to "
            "`halowire partition`"
        )
    for name in ("metis", "balance"):
        now, usual = getattr(config.partition, name), getattr(default.partition, name)
        # Shards from before this was recorded were cut as usual.
        then = manifest.get(name, usual)
        if now not in (usual, then):
            raise InputError(
                f"{shards} was cut with --partition.{name} {then}; --partition.{name} {now} belongs to "
                "`halowire partition`"
            )


def _refuse_other_links(shards: Path, config: Config) -> None:
    found = links_record(shards)
    for name in ("val_share", "test_share", "negatives", "seed"):
        now = config.seed if name == "seed" else getattr(config.task, name)
        if found[name] != now:
            flag = f"--{'seed' if name == 'seed' else 'task.' + name.replace('_', '-')}"
            raise InputError(f"the edges of {shards} were held out with {flag} {found[name]}, now it is {now}")


def refuse_mesh(config: Config, workers: int) -> None:
    """Refuse a mesh that cannot be, and what has no meaning, or no effect, on it."""
    mesh = mesh_of(config, workers)
    mesh.refuse_impossible(config.model.layers, mesh.chunks)
    if config.task.kind == "link" and pipelined(config, mesh):
        raise InputError(
            "--task link runs plain gcn and sage in one stage: a pair needs rows of all chunks at once; leave "
            "--mesh.*, --model.residual and deep models out"
        )
    default, given = MeshConfig(), config.mesh
    if not given.stages and given.parts > 1 and mesh.stages == 1:
        raise InputError(
            f"--mesh.parts {given.parts} leaves one stage to {workers} workers, so that nothing is pipelined; use "
            f"{2 * given.parts} workers or more, or --mesh.stages 1 if that is what you want"
        )
    idle = {
        "split": ("more than one stage", mesh.stages > 1),
        "costs": ("more than one stage, split by halowire", mesh.stages > 1 and not given.split),
        "shuffle": ("more than one chunk", mesh.chunks > 1),
        "history": ("more than one chunk", mesh.chunks > 1),
        "gradient_rule": ("more than one chunk", mesh.chunks > 1),
        "keep": ("stages, chunks, --model.residual, gcnii or resgcn", pipelined(config, mesh)),
    }
    for name, (needed, has) in idle.items():
        if not has and getattr(given, name) != getattr(default, name):
            raise InputError(f"--mesh.{name.replace('_', '-')} has no effect without {needed}")
    if given.split:
        parse_split(given.split, mesh.stages, config.model.layers)
    if config.model.residual and (config.model.name not in ("gcn", "sage") or config.model.layers < 3):
        raise InputError(
            "--model.residual belongs to hidden layers of gcn and sage: use one of them, with 3 layers or more"
        )
    refuse_gat(config, mesh)
    _refuse_wire(config, mesh)


def _refuse_wire(config: Config, mesh: Mesh) -> None:
    rate, mode = config.rate, config.freshness.mode
    delayed = mode in ("delayed", "adaptive")
    if mesh.stages > 1 and delayed:
        raise InputError(
            f"--freshness.mode {mode} has no meaning between stages: a stage cannot go on without its input; "
            "use fresh rows, or one stage"
        )
    if mesh.stages > 1 and rate.rows < 1:
        raise InputError(
            "--rate.rows has no meaning between stages: a row that does not arrive has no value to go on with; "
            "use fewer bits or columns, or one stage"
        )
    if rate.nodes == "degree" and (mesh.stages > 1 or mesh.chunks > 1):
        raise InputError(
            "--rate.nodes degree ranks the halo nodes of whole parts, which neither stages nor chunks send; "
            "use one stage and --mesh.chunks 1"
        )
    if rate.weights != 32 and mesh.parts == 1 and mesh.stages > 1:
        raise InputError(
            f"--rate.weights {rate.weights} has no effect with one part: only the parts of a stage add up their weight "
            "gradients; leave it out, or use more parts"
        )
    if rate.schedule == "budget" and mesh.chunks > 1 and mesh.parts > 1:
        raise InputError(
            "--rate.schedule budget cannot plan halo rows that several parts exchange chunk by chunk; "
            "use --mesh.chunks 1, one part, or another schedule"
        )
    if mesh.stages > 1 and rate.gain < 1:
        raise InputError(
            f"--rate.gain {rate.gain:g} belongs to halo rows; between stages changes are kept whole: use --rate.gain 1"
        )
    if mesh.stages > 1 and rate.share:
        raise InputError(
            f"--rate.share {rate.share:g} fits bits to the rows of a halo, stages send others; use --rate.share 0 with "
            "--rate.bits or --rate.layers"
        )
    if mesh.stages > 1 and mesh.parts == 1 and mode == "never":
        raise InputError(
            "--freshness.mode never has no effect with one part: no edges lie between workers; use more parts, or "
            "leave it out"
        )
    if rate.resend_input and pipelined(config, mesh):
        raise InputError("--rate.resend-input belongs to plain gcn and sage in one stage; leave it out")
    if mesh.chunks > 1 and mesh.parts > 1:
        _refuse_chunk_halos(config)


def _refuse_chunk_halos(config: Config) -> None:
    """Refuse what halo rows that travel chunk by chunk cannot do."""
    rate, mode = config.rate, config.freshness.mode
    if rate.decay >= 0:
        raise InputError(
            f"--rate.decay {rate.decay:g} does not go with several chunks in several parts: chunks send halo rows "
            "after dropout, not their changes; turn it off with --rate.decay -1, or use --mesh.chunks 1 or "
            "--mesh.parts 1"
        )
    reasons = {f"--freshness.mode {mode}": mode in ("delayed", "adaptive"), "--rate.rows": rate.rows < 1}
    for name, chosen in reasons.items():
        if chosen:
            raise InputError(
                f"{name} does not go with several chunks in several parts: halo rows of chunks are this epoch's, "
                "all of them, after dropout; use --mesh.chunks 1 or --mesh.parts 1"
            )


def refuse_other_job(job: Job, graph: Any) -> None:
    """Refuse to resume a run with another graph, number of workers or setting than it had."""
    if not (job.run / "config.json").exists():
        return
    before = Job.read(job.run)
    pairs = {"the graph": (before.source, job.source), "--workers": (before.workers, job.workers)}
    old, new = before.config.flat(), job.config.flat()
    fixed = [name for name in new if name not in MAY_CHANGE or (name == "epochs" and job.config.spans_the_run)]
    pairs |= {f"--{name.replace('_', '-')}": (old[name], new[name]) for name in fixed}
    if isinstance(graph, Graph) and is_shard_folder(job.shards):
        manifest = read_manifest(job.shards)
        sizes = (manifest["num_nodes"], manifest["num_edges"]), (graph.num_nodes, graph.num_edges)
        pairs["the graph's size (nodes, edges)"] = sizes
    for name, (then, now) in pairs.items():
        if then != now:
            raise InputError(
                f"the run in {job.run} had {name} {then}, now it is {now}; resume with the same, or train elsewhere"
            )
