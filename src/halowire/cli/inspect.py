"""`halowire inspect GRAPH_OR_DIR` describes what a graph, or a folder of shards, holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from halowire.cli.parse import GraphOrShards, parse
from halowire.errors import InputError
from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.partitioning import Quality, is_shard_folder, machine_rows, machine_sums, read_manifest, read_shard
from halowire.training import GraphConfig, load_source
from halowire.wire import Machines


@dataclass(frozen=True)
class Arguments:
    """Describe a graph (size, features, labels, split), or a folder of shards (size, quality of the cut)."""

    graph: GraphOrShards
    source: Annotated[GraphConfig, tyro.conf.arg(name="graph")] = field(default_factory=GraphConfig)
    hosts: int = 0
    """shards: count the rows that cross the network if the workers are on this many machines"""


def run(argv: list[str]) -> int:
    """Print the size, the features, the labels and the split of a graph, or the quality of a folder of shards."""
    arguments = parse(Arguments, "inspect", argv)
    if is_shard_folder(Path(arguments.graph)):
        lines = _describe_shards(read_manifest(arguments.graph))
        lines += _describe_machines(Path(arguments.graph), arguments.hosts)
    elif arguments.hosts:
        raise InputError(f"--hosts belongs to a folder of shards, and {arguments.graph} is a graph; leave it out")
    else:
        lines = _describe_graph(load_source(arguments.graph, arguments.source))
    print("\n".join(lines))
    return 0


def _describe_graph(graph: Graph) -> list[str]:
    degree = graph.adj.indptr.diff()
    lines = [
        f"graph      {graph.name}",
        f"nodes      {graph.num_nodes:,} ({int((degree == 0).sum()):,} without an incoming edge)",
        f"edges      {graph.num_edges:,} directed entries{', weighted' if graph.adj.weight is not None else ''}",
        f"in-degree  mean {graph.num_edges / graph.num_nodes:.1f}, largest {int(degree.max()):,}",
    ]
    if graph.x is not None:
        sparse = f"sparse, {graph.x.nnz / graph.num_nodes:.1f} per node" if isinstance(graph.x, Csr) else "dense"
        lines.append(f"features   {graph.num_features:,} ({sparse})")
    if graph.y is not None:
        kind = "values    " if graph.regression else "classes   "
        lines.append(f"{kind} {graph.num_classes}{' (several per node)' if graph.multi_label else ''}")
    masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
    if all(mask is not None for mask in masks.values()):
        lines.append(
            "split      " + ", ".join(f"{name} {int(mask.sum()):,}" for name, mask in masks.items() if mask is not None)
        )
    return lines


def _describe_machines(folder: Path, hosts: int) -> list[str]:
    """The rows between machines, before and after each machine gets a row once; nothing where all is one machine."""
    parts = read_manifest(folder)["num_parts"]
    if not 0 <= hosts <= parts:
        raise InputError(f"--hosts is {hosts}, but there are {parts} parts; use 1 to {parts}")
    if hosts < 2:
        return []
    machine = Machines.split(parts, hosts).of
    before, after = machine_rows((read_shard(folder, part) for part in range(parts)), machine)
    sums = machine_sums((read_shard(folder, part) for part in range(parts)), machine)
    return [
        f"machines   {hosts}: {before:,} halo rows between them, {after:,} sent once per machine (--mesh.hosts), "
        f"{sums:,} with partial sums (--wire.cover)"
    ]


def _describe_shards(manifest: dict[str, Any]) -> list[str]:
    lines = [
        f"shards     {manifest['num_parts']} parts of {manifest['graph']}",
        f"nodes      {manifest['num_nodes']:,}",
        f"edges      {manifest['num_edges']:,}",
    ]
    quality = manifest.get("quality")
    return lines + (["quality    not in the manifest"] if quality is None else Quality.from_json(quality).lines())
