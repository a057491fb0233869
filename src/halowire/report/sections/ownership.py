"""Who owns what: the parts of the graph, what the cut costs, and a row for every worker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from halowire.report.facts import ShownRun
from halowire.report.markup import Html, join, table, tag
from halowire.report.units import NOTHING, bytes_text, count_text, digits, number, percent_text

PER_PART = (
    ("nodes", "owned_rows", "owned nodes"),
    ("edges", "", "edges into them"),
    ("halo_rows", "halo_rows", "halo rows"),
    ("train_nodes", "", "training nodes"),
)
"""Key of the quality figures, key of the start event to fall back on, words."""
BALANCE = (
    ("node_imbalance", "nodes, largest part / mean"),
    ("edge_imbalance", "edges, largest part / mean"),
    ("work_imbalance", "work, largest part / mean"),
)
"""Key of the quality figures, words."""


def who_owns_what(one: ShownRun) -> Html | None:
    """Partition quality of one run; None when nothing is known about it."""
    found = one.facts.get("partition")
    quality: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    tables = [made for made in (_cut_table(quality), _worker_table(one, quality)) if made is not None]
    if not tables:
        return None
    words = _sentence(quality)
    return join(tag("p", words) if words else None, tag("div", *tables, class_="beside"))


def _sentence(quality: Mapping[str, Any]) -> str | None:
    """What the numbers mean for the wire; None when they are unknown."""
    share, nodes = number(quality.get("cut_share")), number(quality.get("num_nodes"))
    rows = _items(quality.get("halo_rows"))
    if len(rows) < 2 or math.isnan(share) or not nodes > 0:
        return None
    copies = 100 * sum(map(number, rows)) / nodes
    return (
        f"{percent_text(share)} of the edges cross from one worker to another; for every 100 nodes that a worker owns, "
        f"it receives {digits(copies)} rows of others in every exchange."
    )


def _items(value: Any) -> Sequence[Any]:
    """A list as it is; anything else as an empty one."""
    return value if isinstance(value, list | tuple) else ()


def _cut_table(quality: Mapping[str, Any]) -> Html | None:
    """The figures of the whole partition."""
    rows: list[list[object]] = []
    if "method" in quality:
        rows.append(["method", str(quality["method"])])
    if "cut_edges" in quality:
        rows.append(["cut edges", f"{count_text(quality['cut_edges'])} ({percent_text(quality.get('cut_share'))})"])
    for key, words in BALANCE:
        if math.isfinite(number(quality.get(key))):
            rows.append([words, f"{number(quality[key]):.2f}"])
    predicted = quality.get("bytes_per_epoch")
    # Of a foreign model the widths of its rows are not known when the graph is cut, and its bytes are foretold as 0.
    foretold = isinstance(predicted, Mapping) and any(number(value) > 0 for value in predicted.values())
    # A single part has no halo, but may be a stage among others, whose bytes the cut knows nothing of.
    several = len(_items(quality.get("halo_rows"))) != 1
    if isinstance(predicted, Mapping) and several and (foretold or not any(map(number, _items(quality["halo_rows"])))):
        rows += [
            [f"halo bytes per epoch at {bits} bit{'' if str(bits) == '1' else 's'}", bytes_text(value)]
            for bits, value in predicted.items()
        ]
    return table([], rows, "Partition quality") if rows else None


def _worker_table(one: ShownRun, quality: Mapping[str, Any]) -> Html | None:
    """What every worker owns, its halo and its memory; columns of which nothing is known are left out."""
    ranks = {rank.rank: rank for rank in one.files.ranks}
    workers = number(one.facts["workers"])
    count = int(workers) if workers >= 1 else max(ranks, default=0) + 1
    columns: dict[str, list[str]] = {}
    for key, fallback, words in PER_PART:
        known = _items(quality.get(key))
        if len(known) != count:
            known = [ranks[rank].start.get(fallback) if rank in ranks else None for rank in range(count)]
        columns[words] = [count_text(value) for value in known]
    ends = [ranks[rank].end if rank in ranks else {} for rank in range(count)]
    columns["peak memory"] = [bytes_text(end.get("peak_memory_bytes")) for end in ends]
    columns = {name: cells for name, cells in columns.items() if set(cells) != {NOTHING}}
    rows = [[f"worker {rank}", *(cells[rank] for cells in columns.values())] for rank in range(count)]
    return table(["", *columns], rows, "Workers") if columns else None
