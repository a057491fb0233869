"""The tables as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.slow_network.rows import learn_rows, speed_rows, targets

SPEED_HEAD = (
    "recipe", "s/epoch", "fastest", "waiting", "halo MB", "weights MB", "speed-up", "bytes allow", "null s",
    "x own null", "x exact's null",
)  # fmt: skip
LEARN_HEAD = ("recipe", "epochs", "seconds", "times as fast as exact", "best seen")


def markdown(result: Mapping[str, Any]) -> str:
    """All tables of a result file."""
    parts = []
    for name, case in result["cases"].items():
        if rows := speed_rows(case):
            parts += [_speed(name, case, rows)]
        if learnt := learn_rows(case):
            parts += [_learnt(learnt)]
        if wanted := targets(case):
            parts += ["\n".join(f"- {what} {want:g}: {got:.2f}, {_yes(ok)}" for what, want, got, ok in wanted)]
    return "\n\n".join(parts) + "\n"


def _yes(holds: bool) -> str:
    return "met" if holds else "**missed**"


def _speed(name: str, case: Mapping[str, Any], rows: list[dict[str, Any]]) -> str:
    exact = rows[0]
    waiting, null = exact["waiting"] / exact["seconds"], case["nulls"]["exact"]["seconds"]
    title = (
        f"### {name}: links of {case['rate'] / 1e6:g} mbit/s\n\n`exact` waits {waiting:.1%} of its epoch; its "
        f"computation alone (null transport) takes {null:.2f} s; "
        f"weight gradients are {exact['weight_share']:.1%} of its bytes, "
        f"{_weight_share(rows)}"
    )
    return f"{title}\n\n{_table(SPEED_HEAD, [_speed_cells(row) for row in rows])}"


def _weight_share(rows: list[dict[str, Any]]) -> str:
    shares = {row["recipe"]: row["weight_share"] for row in rows}
    told = [f"{shares[name]:.1%} of `{name}`'s" for name in ("sylvie-a", "halowire-classic") if name in shares]
    return (" and ".join(told) or "more of the others'") + "."


def _speed_cells(row: dict[str, Any]) -> list[str]:
    waiting = "" if row["waiting"] is None else f"{row['waiting'] / row['seconds']:.1%}"
    return [
        row["recipe"], f"{row['seconds']:.2f}", f"{row['fastest']:.2f}", waiting, f"{row['halo_bytes'] / 1e6:.2f}",
        f"{row['weight_bytes'] / 1e6:.2f}", f"{row['speed_up']:.1f}", f"{row['byte_ratio']:.1f}",
        _number(row["null_seconds"]), _number(row["times_null"]), _number(row["times_plain_null"]),
    ]  # fmt: skip


def _learnt(rows: list[dict[str, Any]]) -> str:
    exact = next(row["seconds"] for row in rows if row["recipe"] == "exact")
    cells = []
    for row in rows:
        fast = "" if row["seconds"] is None else f"{exact / row['seconds']:.1f}"
        done = "not reached" if row["epochs"] is None else str(row["epochs"])
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.0f}"
        cells.append([row["recipe"], done, seconds, fast, f"{row['reached']:.2%}"])
    title = f"To 99% of `exact`'s best validation accuracy ({rows[0]['goal']:.2%}):"
    return f"{title}\n\n{_table(LEARN_HEAD, cells)}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
