"""The table as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.pipeline.cases import HALVES, MODELS, ORDER, WAYS
from bench.pipeline.formulas import wire_seconds
from bench.pipeline.goals import BASE, HYBRID, ONE_BIT, PIPELINE, choice, communication, fewer, goals, seconds
from bench.timing.rate import rounded
from halowire.schedules import ideal_bubble

HEAD = (
    "way", "s/epoch", "speed-up", "waiting", "communication s", "wire s", "halo MB", "stage MB", "weights MB",
    "rows' bytes", "vs fp32 links", "idle (ideal bubble)", "formula",
)  # fmt: skip
SUMMARY = (
    "graph, model", "mbit/s", "graph parallel s/epoch", "waiting", "pipeline", "one-bit pipeline", "hybrid",
    "pipeline's bytes", "in one bit",
)  # fmt: skip
LEAST_WAITING = 0.7


def markdown(result: Mapping[str, Any]) -> str:
    """All cases in short, what became of the goals, when to choose which, and a table for every graph and model."""
    result = {**result, "cases": _ordered(result["cases"])}
    parts = [_case(name, case) for name, case in result["cases"].items()]
    wrong = mistaken(result)
    bytes_line = "- bytes of all runs as the formulas say" if not wrong else f"- **bytes differ**: {'; '.join(wrong)}"
    found = [_summary(result), "\n".join([*goals(result), bytes_line]), choice(result)]
    return "\n\n".join(part for part in (*found, *parts) if part) + "\n"


def _ordered(cases: Mapping[str, Any]) -> dict[str, Any]:
    """By graph, then by model, whatever was measured first."""
    graphs = list(dict.fromkeys(graph for graph, _ in ORDER))
    places = {(graph, model): (row, MODELS.index(model)) for row, graph in enumerate(graphs) for model in MODELS}
    return dict(sorted(cases.items(), key=lambda item: places.get((item[1]["graph"], item[1]["model"]), (99, 0))))


def _summary(result: Mapping[str, Any]) -> str:
    """A line for every graph and model: how many times as fast, and how many times fewer bytes."""
    rows = [_line(name, case) for name, case in result["cases"].items() if BASE in case["runs"]]
    lines = [SUMMARY, ["---", *["---:"] * (len(SUMMARY) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) if rows else ""


def _line(name: str, case: Mapping[str, Any]) -> list[str]:
    base = case["runs"][BASE]
    facts = [name, f"{case['rate'] / 1e6:.3g}", f"{base['seconds']:.1f}", f"{base['waiting'] / base['seconds']:.0%}"]
    times = [_times(way, case) for way in (PIPELINE, ONE_BIT, HYBRID)]
    return [*facts, *times, *(_ratio(fewer(case, BASE, way)) for way in (PIPELINE, ONE_BIT))]


def _times(way: str, case: Mapping[str, Any]) -> str:
    """How many times as fast as graph parallelism; at most so many where the time was computed."""
    if (found := seconds(case, way)) is None:
        return "failed" if way in case["failed"] else ""
    return f"{'' if way in case['runs'] else '≤ '}{case['runs'][BASE]['seconds'] / found:.2f}x"


def mistaken(result: Mapping[str, Any]) -> list[str]:
    """The runs whose bytes are not those of the formulas."""
    return [
        f"{name}, {way}"
        for name, case in result["cases"].items()
        for way, run in case["runs"].items()
        if not _as_formula(run)
    ]


def _as_formula(run: Mapping[str, Any]) -> bool:
    """Whether a run sent the bytes of the formula, and no more than its headers beside them."""
    headers = run.get("headers", {"halo": 0, "stage": 0})  # runs of earlier versions sent none
    return all(0 <= run[f"{kind}_bytes"] - run["formula"][kind] <= most for kind, most in headers.items())


def _case(name: str, case: Mapping[str, Any]) -> str:
    failed = [[way, f"**failed**: {_short(case['failed'][way])}"] for way in WAYS if way in case["failed"]]
    if BASE not in case["runs"]:
        return f"### {name}\n\n" + "\n".join(f"{way} {words}" for way, words in failed) if failed else ""
    base = case["runs"][BASE]
    share = base["waiting"] / base["seconds"]
    short = "" if share >= LEAST_WAITING else f", **less than the {LEAST_WAITING:.0%} that were wanted**"
    title = (
        f"### {name}: links of {case['rate'] / 1e6:.3g} mbit/s\n\n"
        f"Graph parallelism waits {share:.0%} of its epoch{short}; its computation alone takes "
        f"{case['null']['seconds']:.2f} s; the halos hold {case['halo_share']:.1%} of the nodes."
    )
    rows = [_cells(way, case) for way in WAYS if way in case["runs"]]
    rows += [_computed(way, case) for way in WAYS if way in case["computed"]]
    rows += [cells + [""] * (len(HEAD) - len(cells)) for cells in failed]
    lines = [HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *rows]
    return f"{title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(way: str, case: Mapping[str, Any]) -> list[str]:
    run, base, seats = case["runs"][way], case["runs"][BASE], WAYS[way]
    sent = {"halo": run["halo_bytes"], "stage": run["stage_bytes"]}
    idle = "" if run["bubble"] is None else f"{run['bubble']:.0%} ({ideal_bubble(seats.stages, seats.chunks):.0%})"
    return [
        way,
        f"{run['seconds']:.2f}",
        f"{base['seconds'] / run['seconds']:.2f}",
        f"{run['waiting']:.2f} s, {run['waiting'] / run['seconds']:.0%}",
        f"{communication(run, seats.stages, seats.chunks):.2f}",
        f"{wire_seconds(sent, seats, _rate(way, case)):.2f}",
        f"{run['halo_bytes'] / 1e6:.2f}",
        f"{run['stage_bytes'] / 1e6:.2f}",
        f"{run['weight_bytes'] / 1e6:.2f}",
        *_ratios(way, case),
        idle if seats.stages > 1 else "",
        "yes" if _as_formula(run) else "**no**",
    ]


def _computed(way: str, case: Mapping[str, Any]) -> list[str]:
    """A way whose wire alone would take too long."""
    found, base = case["computed"][way], case["runs"][BASE]
    sent = found["formula"]
    return [
        f"{way} (computed, not measured)",
        f"≥ {found['seconds']:.0f}",
        f"≤ {base['seconds'] / found['seconds']:.2f}",
        "",
        "",
        f"{found['seconds']:.2f}",
        f"{sent['halo'] / 1e6:.2f}",
        f"{sent['stage'] / 1e6:.2f}",
        "",
        *_ratios(way, case),
        "",
        "by it",
    ]


def _ratios(way: str, case: Mapping[str, Any]) -> list[str]:
    """Bytes against graph parallelism, and against the float32 pipeline where stages are linked."""
    links = fewer(case, PIPELINE, way) if WAYS[way].stages > 1 else None
    return [_ratio(fewer(case, BASE, way)), _ratio(links)]


def _ratio(times: float | None) -> str:
    if times is None or times == 1:
        return "" if times is None else "1"
    return f"1/{times:.1f}" if times > 1 else f"{1 / times:.1f} x"


def _rate(way: str, case: Mapping[str, Any]) -> int:
    return rounded(case["rate"] / (HALVES if WAYS[way].workers > 2 else 1))


def _short(reason: str) -> str:
    """The last line of it, which a table can hold."""
    return reason.strip().splitlines()[-1][-160:].replace("|", "/") if reason.strip() else "no reason was given"
