"""`halowire partition GRAPH --parts N --out DIR` cuts a graph into shards on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from halowire import api
from halowire.cli.parse import GraphArgument, parse
from halowire.report import Console
from halowire.training import GraphConfig, PartitionConfig, load_source


@dataclass(frozen=True)
class Arguments:
    """Cut a graph into shards on disk, one folder per worker, and say how good the cut is."""

    graph: GraphArgument
    parts: int
    """number of parts, one per worker"""
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")]
    """folder for manifest.json and the shards"""
    partition: PartitionConfig = field(default_factory=PartitionConfig)
    source: Annotated[GraphConfig, tyro.conf.arg(name="graph")] = field(default_factory=GraphConfig)
    seed: int = 0
    """seed of the partitioner"""
    inductive: bool = False
    """also cut the subgraph of the training nodes, for inductive training"""
    quiet: bool = False
    """only warnings and errors"""


def run(argv: list[str]) -> int:
    """Read the graph, cut it into shards, print the quality of the cut and the command that trains on the shards."""
    arguments = parse(Arguments, "partition", argv)
    graph = load_source(arguments.graph, arguments.source)
    folder = api.partition(
        graph, arguments.parts, arguments.out, arguments.partition.method, arguments.seed, arguments.inductive,
        quiet=arguments.quiet, metis=arguments.partition.metis, balance=arguments.partition.balance,
    )  # fmt: skip
    Console(quiet=arguments.quiet).line(f"{arguments.parts} shards in {folder}; train with `halowire train {folder}`")
    return 0
