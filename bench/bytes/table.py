"""The table of `bench.bytes`: one line for every graph, number of parts and partitioner."""

from __future__ import annotations

from typing import Any

HEAD = (
    "| graph | parts | method | halo rows | with sums | of METIS' halo rows | per node | work | memory | seconds |\n"
    "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def table(results: dict[str, Any]) -> str:
    """The lines of ``results``, whose keys are ``graph parts method``."""
    return "\n".join([HEAD, *(_line(key, one, results) for key, one in results.items())])


def _line(key: str, one: dict[str, Any], results: dict[str, Any]) -> str:
    name, parts, method = key.split()
    usual = results.get(f"{name} {parts} metis")
    share = f"{one['cover_rows'] / usual['halo_rows']:.2f}" if usual else ""
    cells = [
        name, parts, method, f"{one['halo_rows']:,}", f"{one['cover_rows']:,}", share,
        f"{one['cover_rows'] / one['nodes']:.2f}",
        f"{one['work']:.2f}", f"{one['memory']:.2f}", str(one["seconds"]),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"
