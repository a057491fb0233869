"""All of PyG's layers in four tables, as docs/coming-from-pyg.md shows them."""

from __future__ import annotations

from tests.support.list_case import ABSENT, ELSEWHERE, EQUAL, REFUSED, Case
from tests.support.pyg_aggregations import AGGREGATIONS, NORMS
from tests.support.pyg_layers import LAYERS
from tests.support.pyg_whole_models import MODELS

TABLES: dict[str, dict[str, Case]] = {
    "layers (`nn.conv`)": LAYERS, "aggregations (`nn.aggr`)": AGGREGATIONS, "norms (`nn.norm`)": NORMS,
    "models (`nn.models`)": MODELS,
}  # fmt: skip


def layer_lines() -> list[str]:
    """The lines of the page's tables of layers."""
    lines = ["| of `torch_geometric.nn` | equal to plain PyG |", "| --- | --- |"]
    for kind, table in TABLES.items():
        equal = {name: case for name, case in table.items() if case.outcome in (EQUAL, ELSEWHERE)}
        lines.append(f"| {kind} | {_names(equal)} |")
    lines += ["", "| refused, or not tried | instead, or why |", "| --- | --- |"]
    for outcome in (REFUSED, ABSENT):
        reasons: dict[str, dict[str, Case]] = {}
        for name, case in ((name, case) for table in TABLES.values() for name, case in table.items()):
            if case.outcome == outcome:
                reasons.setdefault(case.words, {})[name] = case
        before = "" if outcome == REFUSED else "not tried: "
        lines += [f"| {_names(cases)} | {before}{words} |" for words, cases in reasons.items()]
    return lines


def _names(cases: dict[str, Case]) -> str:
    """The names of ``cases``, each once, with their options; a star marks those that need sorted edges."""
    options: dict[str, list[str]] = {}
    for name, case in cases.items():
        base, _, option = name.partition(" ")
        if base[0].isupper() or not option:
            options.setdefault(f"`{base}`", []).append(option + "*" * case.sorted_only)
        else:
            options.setdefault(name, [])
    found = []
    for base, given in options.items():
        star = "*" if "*" in given else ""
        named = [option for option in given if option not in ("", "*")]
        found.append(f"{base}{star}" + (f" ({', '.join(named)})" if named else ""))
    return ", ".join(found)
