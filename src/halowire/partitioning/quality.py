"""How good a partition is, before anything is trained: cut, halo rows, balance, and bytes per epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from halowire.errors import InputError, size_text
from halowire.graph import Graph
from halowire.partitioning.owned_rows import group_by_owner
from halowire.partitioning.part_load import DEFAULT_WIDTHS, PartLoad, imbalance
from halowire.partitioning.partition import Partition
from halowire.partitioning.reductions import AT_HOME, BOTH, COVER, FLAGS, Bytes, exchange_bytes, reduced_bytes
from halowire.partitioning.schema import Check, listed, number, record, text, whole

# Above this, the largest part clearly sets the pace of all workers.
LARGE_IMBALANCE = 1.5


@dataclass(frozen=True)
class Quality:
    """The numbers of one partition; lists have one entry per part.

    Attributes:
        num_parts, method, seed: how the partition was made.
        num_nodes, num_edges: sizes of the whole graph.
        cut_edges: edges whose two ends have different owners.
        cut_share: ``cut_edges / num_edges``.
        nodes, edges: number of owned nodes, and of edges into owned nodes.
        halo_rows: rows of other parts that the part needs.
        train_nodes: owned training nodes.
        node_imbalance, edge_imbalance: largest part over mean part.
        work_imbalance: largest over mean ``nodes / mean nodes + edges / mean edges``, an estimate of a worker's time.
        memory_imbalance: largest over mean predicted memory, see :class:`PartLoad`; 0 in manifests that lack it.
        widths: columns of the rows exchanged, one per exchange.
        bytes_per_epoch: halo bytes sent by all workers in an epoch, forward and backward, by bits per value.
        warnings: what the user should know before training.
        cover_rows: rows and partial sums that every part needs in the place of its halo rows (``--wire.cover``); empty
            in manifests that lack them.
        exchanged: halo rows of all parts in one exchange of an epoch, and the rows and partial sums in their place;
            where training leaves out nodes, without theirs. Empty in manifests that lack them.
        reduced_bytes: ``bytes_per_epoch`` after every exact reduction, see :mod:`halowire.partitioning.reductions`.
        choices: why this method and this weighting were chosen, where there was a choice.
    """

    num_parts: int
    method: str
    seed: int
    num_nodes: int
    num_edges: int
    cut_edges: int
    cut_share: float
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    halo_rows: tuple[int, ...]
    train_nodes: tuple[int, ...]
    node_imbalance: float
    edge_imbalance: float
    work_imbalance: float
    widths: tuple[int, ...]
    bytes_per_epoch: dict[str, int]
    warnings: tuple[str, ...]
    memory_imbalance: float = 0.0
    choices: tuple[str, ...] = ()
    cover_rows: tuple[int, ...] = ()
    exchanged: tuple[int, ...] = ()
    reduced_bytes: dict[str, Bytes] = field(default_factory=dict)

    def with_cover(self, cover_rows: Sequence[int], exchanged: tuple[int, int]) -> Quality:
        """These numbers, now that it is known what partial sums save; see the attributes of these names."""
        reduced = reduced_bytes(*exchanged, self.widths)
        return replace(self, cover_rows=tuple(cover_rows), exchanged=exchanged, reduced_bytes=reduced)

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Quality:
        """The inverse of :meth:`to_json`; refuses values of other types."""
        if mismatch := _mismatch(values):
            raise InputError(f"the quality of the partition is damaged: {mismatch}; partition the graph again")
        known: dict[str, Any] = {field.name: values[field.name] for field in fields(Quality) if field.name in values}
        known |= {key: tuple(value) for key, value in known.items() if isinstance(value, list)}
        return Quality(**known)

    def meaning(self) -> str:
        """One sentence that says what crosses the network, what is copied, and which part is the slowest."""
        if self.num_parts == 1:
            return "One part holds all nodes, so no halo rows cross the network."
        received = "with one layer no rows are exchanged in training"
        if self.widths:
            copies = 100 * sum(self.halo_rows) / self.num_nodes
            received = (
                f"for every 100 nodes of its own a worker receives {copies:.0f} rows of others per layer and direction"
            )
        return (
            f"Of every 100 edges {100 * self.cut_share:.0f} cross workers; {received}; "
            f"the busiest has {100 * (self.work_imbalance - 1):.0f}% more work than the mean."
        )

    def lines(self) -> list[str]:
        """The report as short lines of text, without the warnings."""
        return [
            f"parts       {self.num_parts} by {self.method}, nodes {_span(self.nodes)}, edges {_span(self.edges)}",
            f"cut         {self.cut_edges:,} of {self.num_edges:,} edges ({self.cut_share:.1%})",
            f"halo rows   {_span(self.halo_rows)} per part, {sum(self.halo_rows):,} in all{self._cover()}",
            f"balance     nodes {self.node_imbalance:.2f}, edges {self.edge_imbalance:.2f}, "
            f"both together {self.work_imbalance:.2f}{self._memory()} (largest / mean)",
            *(f"choice      {sentence}" for sentence in self.choices),
            f"per epoch   {self._traffic()}",
            *self._reductions(),
            self.meaning(),
        ]

    def _cover(self) -> str:
        return f"; {sum(self.cover_rows):,} with partial sums (--wire.cover)" if self.cover_rows else ""

    def _reductions(self) -> list[str]:
        """A line for every reduction: its bytes, its rows per layer, its setting."""
        if not self.reduced_bytes or not self.widths or self.num_parts == 1:
            return []
        rows, covered = (f"{count:,} rows per layer" for count in self.exchanged)
        left = {COVER: covered, AT_HOME: f"{rows} but the first", BOTH: f"{covered} but the first"}
        return [
            f"            {_two_sizes(self.reduced_bytes[name])} with {words} ({FLAGS[name]})"
            for name, words in left.items()
        ]

    def _memory(self) -> str:
        return f", memory {self.memory_imbalance:.2f}" if self.memory_imbalance else ""

    def _traffic(self) -> str:
        if self.num_parts == 1:
            return "no halo rows"
        if not self.widths:
            return "nothing: a model of one layer exchanges no rows in training"
        columns = ", ".join(map(str, self.widths))
        return f"{_two_sizes(self.bytes_per_epoch)} (rows of {columns} columns, both directions)"


def measure(graph: Graph, partition: Partition, widths: Sequence[int] = DEFAULT_WIDTHS) -> Quality:
    """Measure ``partition`` on ``graph`` for a model that exchanges rows of ``widths`` columns, forward and backward.

    ``bytes = 2 * (sum of halo rows) * (sum over widths of row_bytes)``; what reductions save is added by
    :meth:`Quality.with_cover`.
    """
    adj, owner, parts = graph.adj, partition.owner, partition.num_parts
    partition.require_fit(graph)
    load = PartLoad.of(graph, owner, parts, widths)
    work = imbalance(load.work())
    cut_edges = int((owner[adj.row_index().long()] != owner[adj.indices.long()]).sum())
    train_mask = graph.train_mask
    owned = group_by_owner(owner, parts)
    train = [0 if train_mask is None else int(train_mask[rows].sum()) for rows in owned]
    return Quality(
        num_parts=parts,
        method=partition.method,
        seed=partition.seed,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        cut_edges=cut_edges,
        cut_share=cut_edges / max(graph.num_edges, 1),
        nodes=load.nodes,
        edges=load.edges,
        halo_rows=load.halo_rows,
        train_nodes=tuple(train),
        node_imbalance=imbalance(load.nodes),
        edge_imbalance=imbalance(load.edges),
        work_imbalance=work,
        memory_imbalance=imbalance(load.memory()),
        widths=tuple(widths),
        bytes_per_epoch=exchange_bytes(sum(load.halo_rows), widths),
        warnings=tuple(_warnings(None if train_mask is None else train, work)),
        choices=partition.choices,
    )


def _mismatch(values: Any) -> str | None:
    """The first mistake in the JSON ``values`` of a quality, in words; None where there is none."""
    count, counts = whole(), listed(whole())
    lists = ("nodes", "edges", "halo_rows", "train_nodes")
    checks: dict[str, Check] = {
        "num_parts": whole(1), "method": text, "seed": whole(None), "num_nodes": whole(1), "num_edges": count,
        "cut_edges": count, "cut_share": number, **dict.fromkeys(lists, counts), "widths": counts,
        **dict.fromkeys(("node_imbalance", "edge_imbalance", "work_imbalance"), number),
        "bytes_per_epoch": record({"32": count, "1": count}), "warnings": listed(text),
    }  # fmt: skip
    # Manifests of earlier versions lack these.
    sizes = record({"32": count, "1": count})
    later = {
        "memory_imbalance": number, "choices": listed(text), "cover_rows": counts, "exchanged": counts,
        "reduced_bytes": record({COVER: sizes, AT_HOME: sizes, BOTH: sizes}),
    }  # fmt: skip
    checks |= {name: check for name, check in later.items() if isinstance(values, dict) and values.get(name)}
    if mismatch := record(checks)(values, ""):
        return mismatch
    short = [name for name in lists if len(values[name]) != values["num_parts"]]
    return f"its {short[0]} has {len(values[short[0]])} entries for {values['num_parts']} parts" if short else None


def _warnings(train: list[int] | None, work_imbalance: float) -> list[str]:
    found = []
    if train is not None and 0 in train:
        idle = [str(part) for part, count in enumerate(train) if count == 0]
        found.append(
            f"no training node in part {', '.join(idle)}: training stays exact, but fewer parts or another seed may "
            "use the workers better"
        )
    if work_imbalance > LARGE_IMBALANCE:
        found.append(f"the largest part has {work_imbalance:.1f} times the mean work: it sets the pace of all workers")
    return found


def _two_sizes(sizes: Bytes) -> str:
    return f"{size_text(sizes['32'])} at 32 bits, {size_text(sizes['1'])} at 1 bit"


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
