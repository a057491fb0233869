"""Cutting a graph into a folder of shards: choose the owners, report the quality of the cut, write the shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from halowire.files import folder_written_whole
from halowire.graph import Graph, LinkSplit
from halowire.partitioning.links import write_links
from halowire.partitioning.manifest import read_manifest, require_free
from halowire.partitioning.partition import METHODS, METIS_WAYS, Partition, partition
from halowire.partitioning.quality import Quality, measure
from halowire.partitioning.store import write_shards
from halowire.partitioning.type_balance import levelled
from halowire.partitioning.weightings import Teller


@dataclass(frozen=True)
class Cutting:
    """How a graph is cut.

    Attributes:
        method, seed: the partitioner and its seed.
        metis, balance: settings of some partitioners, see :class:`Partition`.
        inductive: whether the training subgraph is cut as well.
        types: number of nodes of every type, which come one after another; every part gets its share of each.
    """

    method: str = "metis"
    metis: str = "auto"
    balance: str = "auto"
    seed: int = 0
    inductive: bool = False
    types: tuple[int, ...] = ()

    def owners(self, graph: Graph, num_parts: int, widths: Sequence[int], tell: Teller) -> Partition:
        """An owner for every node of ``graph``; see :func:`partition`."""
        chosen = METHODS.get(self.method)
        options: dict[str, Any] = {}
        if chosen is None or chosen.weighs:
            options["balance"] = self.balance
        if chosen is None or "recursive" in chosen.options:
            options["recursive"] = METIS_WAYS[self.metis]
        found = partition(graph, num_parts, self.method, self.seed, widths=widths, tell=tell, **options)
        return levelled(found, graph, self.types) if self.types else found


def cut_shards(
    graph: Graph,
    num_parts: int,
    out: Path,
    how: Cutting,
    widths: Sequence[int],
    tell: Teller,
    warn: Teller,
    links: LinkSplit | None = None,
) -> Path:
    """Cut ``graph`` into ``num_parts`` shards in the folder ``out``; returns the folder's absolute path.

    Args:
        graph: the whole graph; for link prediction without the edges that are held out.
        num_parts: number of parts.
        out: the folder of the shards.
        how: the partitioner and its settings.
        widths: columns of the rows that a model would exchange, for the quality report.
        tell, warn: called with every line of the quality report, and with every warning in it.
        links: for link prediction, the pairs of nodes to learn, validate and test on.
    """
    require_free(out)
    owners = how.owners(graph, num_parts, widths, tell)
    quality = _quality(graph, owners, widths, how.inductive)
    if links is None:
        write_shards(graph, owners, out, inductive=how.inductive, quality=quality)
    else:
        # The pairs are in the folder before it takes its name: shards without them would be of no use.
        with folder_written_whole(out.absolute()) as folder:
            write_shards(graph, owners, folder, inductive=how.inductive, quality=quality)
            write_links(links, folder)
    # Only now that the parts are cut is it known what partial sums save.
    quality = Quality.from_json(read_manifest(out)["quality"])
    for line in quality.lines():
        tell(line)
    for warning in quality.warnings:
        warn(warning)
    return out.absolute()


def _quality(graph: Graph, owners: Partition, widths: Sequence[int], inductive: bool) -> Quality:
    found = measure(graph, owners, widths)
    if not inductive or graph.train_mask is None:
        return found
    # Training exchanges rows of the training subgraph only.
    held = replace(owners, owner=owners.owner[graph.train_mask])
    training = measure(graph.subgraph(graph.train_mask), held, widths)
    return replace(found, bytes_per_epoch=training.bytes_per_epoch)
