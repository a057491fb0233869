"""Shards that were cut before: whether they fit the settings and the graph that they are used with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halowire.errors import InputError
from halowire.graph import Graph
from halowire.partitioning import EDGE, is_shard_folder, links_record, read_manifest
from halowire.training.config import Config
from halowire.training.source import refuse_edge_tensors


def is_shards(graph: Any) -> bool:
    """Whether ``graph`` names a folder of shards."""
    return isinstance(graph, str | Path) and is_shard_folder(Path(graph))


def refuse_other_cut(shards: Path, num_parts: int, config: Config, default: Config) -> None:
    """Refuse settings of a run that do not fit its folder of shards, or come too late for it.

    ``default``: the settings of the recipe alone.
    """
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


def refuse_other_shards(shards: Path, workers: int, config: Config, graph: Graph | None) -> None:
    """Refuse shards of an earlier comparison that were cut in another way, or from another graph."""
    manifest = read_manifest(shards)
    pairs = {
        "parts": (manifest["num_parts"], workers),
        "method": (manifest.get("method"), config.partition.method),
        "metis": (manifest.get("metis", "auto"), config.partition.metis),
        "balance": (manifest.get("balance", "both"), config.partition.balance),
        "seed": (manifest.get("seed"), config.seed),
        "inductive": (bool(manifest["inductive"]), config.task.inductive),
    }
    if graph is not None:
        pairs["nodes"] = manifest["num_nodes"], graph.num_nodes
        pairs["edges"] = manifest["num_edges"], graph.num_edges
    for name, (then, now) in pairs.items():
        if then != now:
            raise InputError(f"{shards} was cut with {name} {then}, now it is {now}; choose another --out or remove it")
