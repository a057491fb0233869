"""The results of the kernels' verification, as the rows of a Markdown table."""

from __future__ import annotations

from typing import Any

KEY = "halowire/gpu_kernels"
Results = dict[str, dict[str, Any]]
TARGETS = ("sm_80", "sm_90", "sm_120", "gfx90a", "gfx942")
HEAD = ("kernel", *TARGETS, "spills", "forbidden", "interpreted", "PTX of sm_80", "PTX of sm_90")


def in_rows(results: Results) -> list[str]:
    """One line per case: registers on every target, and how its results compare with the twin's."""
    lines = [HEAD, tuple("---" for _ in HEAD)]
    for name, found in results.items():
        registers = [joined(found.get("registers", {}).get(target)) for target in TARGETS]
        compared = [agreement(found, run) for run in ("interpreted", "sm_80", "sm_90")]
        forbidden = str(found.get("forbidden", "")) if found["exact"] else "allowed"
        lines.append((name, *registers, str(found.get("spills", "")), forbidden, *compared))
    return [f"| {' | '.join(line)} |" for line in lines]


def joined(counts: list[int] | None) -> str:
    """The registers of every kernel of a case, each number once."""
    return ", ".join(str(count) for count in dict.fromkeys(counts or []))


def agreement(found: dict[str, Any], run: str) -> str:
    """How a run compares with the twin: equal, or the largest difference."""
    value = found.get("difference", {}).get(run)
    if value is None:
        return "not run"
    if found["exact"]:
        return "equal" if value == 0 else f"{value:.0%} of bytes differ"
    return "0" if value == 0 else f"{value:.0e}"
