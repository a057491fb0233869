"""The table as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.pipeline.cases import WAYS

HEAD = (
    "way",
    "s/epoch",
    "speed-up",
    "waiting",
    "halo MB",
    "stage MB",
    "weights MB",
    "rows' bytes",
    "bubble",
    "formula",
)
BASE = "graph parallel"
WANTED = 2.45
"""Times as fast as graph parallelism, in the best case: the paper's best."""
LEAST_WAITING = 0.7


def markdown(result: Mapping[str, Any]) -> str:
    """A table for every graph and model, and what is left of the goals."""
    parts = [_case(name, case) for name, case in result["cases"].items() if BASE in case["runs"]]
    return "\n\n".join([*parts, *_goals(result)]) + "\n"


def mistaken(result: Mapping[str, Any]) -> list[str]:
    """The runs whose bytes are not those of the formulas."""
    return [
        f"{name}, {way}"
        for name, case in result["cases"].items()
        for way, run in case["runs"].items()
        if not _as_formula(run)
    ]


def _as_formula(run: Mapping[str, Any]) -> bool:
    return (run["halo_bytes"], run["stage_bytes"]) == (run["formula"]["halo"], run["formula"]["stage"])


def _case(name: str, case: Mapping[str, Any]) -> str:
    base = case["runs"][BASE]
    share = base["waiting"] / base["seconds"]
    short = "" if share >= LEAST_WAITING else f", **less than the {LEAST_WAITING:.0%} that were wanted**"
    title = (
        f"### {name}: links of {case['rate'] / 1e6:.3g} mbit/s\n\n"
        f"Graph parallelism waits {share:.0%} of its epoch{short}; its computation alone takes "
        f"{case['null']['seconds']:.2f} s; the halos hold {case['halo_share']:.1%} of the nodes."
    )
    rows = [_cells(way, case["runs"][way], base) for way in WAYS if way in case["runs"]]
    lines = [HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *rows]
    return f"{title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(way: str, run: Mapping[str, Any], base: Mapping[str, Any]) -> list[str]:
    sent, before = _rows_bytes(run), _rows_bytes(base)
    ratio = f"1/{before / sent:.1f}" if sent < before else f"{sent / before:.1f} x"
    return [
        way,
        f"{run['seconds']:.2f}",
        f"{base['seconds'] / run['seconds']:.2f}",
        f"{run['waiting']:.2f} s, {run['waiting'] / run['seconds']:.0%}",
        f"{run['halo_bytes'] / 1e6:.2f}",
        f"{run['stage_bytes'] / 1e6:.2f}",
        f"{run['weight_bytes'] / 1e6:.2f}",
        "1" if run is base else ratio,
        "" if run["bubble"] is None or not run["stage_bytes"] else f"{run['bubble']:.0%}",
        "yes" if _as_formula(run) else "**no**",
    ]


def _rows_bytes(run: Mapping[str, Any]) -> float:
    return float(run["halo_bytes"] + run["stage_bytes"])


def _goals(result: Mapping[str, Any]) -> list[str]:
    """The best speed-ups over all cases."""
    found = []
    for way in list(WAYS)[1:]:
        ratios = {
            name: case["runs"][BASE]["seconds"] / case["runs"][way]["seconds"]
            for name, case in result["cases"].items()
            if {BASE, way} <= case["runs"].keys()
        }
        if ratios:
            best, worst = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
            met = "met" if ratios[best] >= WANTED else "**missed**"
            goal = f"; {WANTED} in the best case: {met}" if way == "pipeline" else ""
            found.append(
                f"- {way}: {ratios[best]:.2f} times as fast on {best}, {ratios[worst]:.2f} times on {worst}{goal}"
            )
    wrong = mistaken(result)
    found.append("- bytes of all runs as the formulas say" if not wrong else f"- **bytes differ**: {'; '.join(wrong)}")
    return ["\n".join(found)]
