"""The report's section on the layers of a model of one's own: which run on halowire's kernels, and why not others."""

from __future__ import annotations

from halowire.report.markup import Html, join, tag
from halowire.report.run import Json, Run
from halowire.report.tables import table


def layers_section(run: Run) -> Html | None:
    """A row for every PyG layer; None where the run has none."""
    paths = known_paths(run.summary)
    if not paths:
        return None
    rows = [[name or "the model", *(str(one.get(key) or "") for key in ("kind", "path", "reason"))]
            for name, one in paths.items()]  # fmt: skip
    return join(
        tag("p", sentence(run.summary), class_="quiet"),
        table(["layer", "kind", "runs", "why"], rows, "Layers and what serves them in training", class_="words"),
    )


def sentence(summary: Json) -> str:
    """How many layers halowire's kernels serve, and whether those are the native ones."""
    paths = known_paths(summary)
    native = sum(one.get("path") == "native" for one in paths.values())
    twins = summary.get("kernels") not in (None, "native")
    words = f"In training, halowire's kernels serve {native} of {len(paths)} layers; PyG's own code serves the others."
    words += " This machine has no native kernels: torch stands in for them." * twins
    dropped = " Rows travel after dropout, so they are coded as they are, not as changes: --rate.decay is not used."
    return words + dropped * (summary.get("rows_as_they_are") is True)


def known_paths(summary: Json) -> dict[str, Json]:
    """The layers of ``summary.json``; none where it is another program's or an older one."""
    found = summary.get("layer_paths")
    named = found.items() if isinstance(found, dict) else ()
    return {str(name): one for name, one in named if isinstance(one, dict)}
