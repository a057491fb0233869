"""Which rows travelled in every layer of a run, before and after each exact reduction, and why it was chosen or not."""

from __future__ import annotations

import math

from halowire.report.facts import ShownRun
from halowire.report.markup import Html, join, table, tag
from halowire.report.units import Json, as_object, bytes_text, capitalised, count_text, number, seconds_text


def what_travels(one: ShownRun) -> Html | None:
    """Rows per layer of all workers, and the choices of what need not travel; None if neither is known."""
    savings = as_object(one.facts.get("savings"))
    cover, first = as_object(savings.get("cover")), as_object(savings.get("first_layer"))
    words = [said for said in (_cover_words(cover), _home_words(first), _machine_words(one)) if said]
    rows = _rows_per_layer(one, cover)
    if not rows and not words:
        return None
    head = ["layer", "halo rows", "with partial sums", "travelled", "of other machines", "across the network"]
    caption = "Rows per layer, of all workers, in one direction"
    shown = table(head[: len(rows[0])], rows, caption) if rows else None
    return join(*(tag("p", said) for said in words), shown, _prices(first))


def _rows_per_layer(one: ShownRun, cover: Json) -> list[list[object]]:
    """Per layer: rows of the halo, with partial sums, those that travelled; and of them, where workers are on several
    machines, those of other machines before and after rows cross once per machine.
    """
    starts = [rank.start for rank in one.files.present]
    layers = list(as_object(starts[0].get("wire_rows"))) if starts else []
    halo = sum(number(start.get("halo_rows")) for start in starts)
    machines = [count for count in _across_machines(starts) if math.isfinite(count)]
    found: list[list[object]] = []
    for layer in layers:
        travelled = sum(number(as_object(start.get("wire_rows")).get(layer)) for start in starts)
        if not math.isfinite(travelled):
            return []
        counts = halo, cover.get("covered"), travelled, *(count if travelled else 0 for count in machines)
        found.append([f"layer {layer}" if layer.isdecimal() else layer, *map(count_text, counts)])
    return found


def _cover_words(cover: Json) -> str:
    if "used" not in cover:
        return ""
    chosen = "Partial sums travelled in the place of halo rows" if cover["used"] else "No partial sums travelled"
    return f"{chosen}, {cover.get('why')}."


def _across_machines(starts: list[Json]) -> tuple[float, float]:
    """The rows that workers needed of other machines in a layer, and those that crossed the network."""
    needed, crossed = (sum(number(start.get(name)) for start in starts) for name in ("machine_rows", "carried_rows"))
    return needed, crossed


def _machine_words(one: ShownRun) -> str:
    """How many rows crossed the network where machines have several workers; empty where they do not, or all did."""
    starts = [rank.start for rank in one.files.present]
    needed, crossed = _across_machines(starts)
    if not (starts and math.isfinite(needed + crossed) and crossed < needed):
        return ""
    return (
        f"Of the {count_text(needed)} rows that workers needed of other machines in a layer, {count_text(crossed)} "
        "crossed the network; the others were handed on by a worker of the same machine."
    )


def _home_words(first: Json) -> str:
    if "at_home" not in first:
        return ""
    where = "computed at home, by every worker for its own halo" if first["at_home"] else "exchanged in every epoch"
    return capitalised(f"the halo's rows of the first layer were {where}, {first.get('why')}.")


def _prices(first: Json) -> Html | None:
    """What computing the first layer at home saves and costs; None where it was not worked out."""
    if not math.isfinite(number(first.get("saved"))):
        return None
    rows: list[list[object]] = [
        ["bytes saved per epoch", bytes_text(first["saved"]), seconds_text(first.get("saved_seconds"))],
        ["multiplications more per epoch", count_text(first.get("products")), seconds_text(first.get("spent_seconds"))],
        ["memory more, of the largest worker", bytes_text(first.get("memory")), ""],
        ["bytes sent once", bytes_text(first.get("sent_once")), ""],
    ]
    if number(first.get("saved_within")) > 0:
        rows.insert(1, ["bytes saved within machines", bytes_text(first["saved_within"]), ""])
    return table(
        ["first layer at home", "", "predicted, of a worker's epoch"], rows, "Prices of the first layer at home"
    )
