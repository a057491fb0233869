"""The cuts of one graph: owners are kept on disk, since hypergraph partitioning takes long; shards live in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from halowire import load
from halowire.graph import Graph
from halowire.partitioning import Partition, Shard, covered_rows, cut, is_shard_folder, measure, partition, write_shards


class Cuts:
    """All cuts of the graph ``name``, which :func:`halowire.load` finds at ``source``; ``work`` keeps them."""

    def __init__(self, name: str, source: str, work: Path) -> None:
        self._name, self._source, self._work = name, source, work
        self._shards: dict[tuple[int, str], list[Shard]] = {}

    @cached_property
    def graph(self) -> Graph:
        """The graph; directed ones are mirrored, but for the built-in one."""
        return load(self._source, undirected=self._name != "debian")

    def partition(self, parts: int, method: str) -> tuple[Partition, float]:
        """The owners, and the seconds that the partitioner took for them."""
        path = self._work / f"{self._name}-{parts}-{method}.pt"
        facts = path.with_suffix(".json")
        if not facts.exists():
            start = time.monotonic()
            made = partition(self.graph, parts, method)
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(made.owner, path)
            facts.write_text(json.dumps({"seconds": time.monotonic() - start, "choices": made.choices}))
        known = json.loads(facts.read_text())
        owner = torch.load(path, weights_only=True)
        return Partition(owner, parts, method, choices=tuple(known["choices"])), known["seconds"]

    def shards(self, parts: int, method: str) -> list[Shard]:
        """All shards; those of the last two cuts stay in memory."""
        key = (parts, method)
        if key not in self._shards:
            while len(self._shards) > 1:
                self._shards.pop(next(iter(self._shards)))
            self._shards[key] = list(cut(self.graph, self.partition(parts, method)[0]))
        return self._shards[key]

    def folder(self, parts: int, method: str) -> Path:
        """The shards on disk."""
        folder = self._work / f"{self._name}-{parts}-{method}"
        if not is_shard_folder(folder):
            write_shards(self.graph, self.partition(parts, method)[0], folder)
        return folder

    def rows(self, parts: int, method: str) -> dict[str, Any]:
        """Rows of one layer and direction, the balance of the parts, and the seconds of preparation."""
        made, seconds = self.partition(parts, method)
        quality = measure(self.graph, made)
        shards = self.shards(parts, method)
        return {
            "nodes": self.graph.num_nodes,
            "edges": self.graph.num_edges,
            "classes": self.graph.num_classes,
            "halo_rows": sum(quality.halo_rows),
            "cover_rows": sum(sum(shard.cover_counts()) for shard in shards),
            "cover_seconds": round(cover_seconds(shards), 4),
            "cut_share": round(quality.cut_share, 4),
            "work": round(quality.work_imbalance, 3),
            "memory": round(quality.memory_imbalance, 3),
            "choices": list(made.choices),
            "seconds": round(seconds, 1),
        }


def cover_seconds(shards: Sequence[Shard]) -> float:
    """Seconds of the minimum covers of all ``shards``, one after another; cutting has found them once already."""
    start = time.monotonic()
    for shard in shards:
        covered_rows(shard.halo, shard.recv_counts)
    return time.monotonic() - start
