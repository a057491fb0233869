"""`python -m bench.gpu_links` computes the table of docs/gpu.md; `--write` puts it there. Nothing is measured."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.gpu_links.bandwidths import LINKS, MEMORY, PRODUCTS

ROOT = Path(__file__).parents[2]
BYTES = ROOT / "bench" / "slow_network" / "result.json"
CASE = "synthetic sage"
PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- table of the links -->", "<!-- end of the links -->"
WORKERS, NODES, EDGES, FEATURES, HIDDEN, CLASSES = 2, 200_000, 4_000_000, 128, 256, 40
"""The graph and the model of the case: three layers of GraphSAGE."""
VALUE = 4
"""Bytes of a float32."""
RECIPES = {"exact": 0, "half": 2, "halowire-classic": 4, "sylvie-a": 2}
"""How often a recipe reads or writes every float32 row that travels, beside sending it: to pack and to unpack, and with
delta coding to read and to write the memory of both ends."""
ENOUGH = 1.5
"""A link is fast enough for a recipe if the epoch takes at most so many times the computation alone."""


@dataclass(frozen=True)
class Epoch:
    """Seconds of an epoch of one worker: computing, coding, and the wire."""

    compute: float
    coding: float
    wire: float

    @property
    def hidden(self) -> float:
        """The epoch if the wire is hidden as far as it can be: the longer of both."""
        return max(self.compute + self.coding, self.wire)


def computation() -> float:
    """Seconds of the sums and products of an epoch, the least that the GPU's bandwidths allow.

    Sums read a row per edge, forward and backward, in the two layers that are aggregated every epoch (256 and 40
    columns). Products: three for each weight (forward, two backward). Other passes over the rows are left out.
    """
    sums = 2 * EDGES / WORKERS * (HIDDEN + CLASSES) * VALUE / MEMORY
    weights = 2 * (FEATURES * HIDDEN + HIDDEN * HIDDEN + HIDDEN * CLASSES)
    return sums + 3 * NODES / WORKERS * weights / PRODUCTS


def epochs() -> dict[str, dict[str, Epoch]]:
    """The epoch of every recipe on every link."""
    runs = json.loads(BYTES.read_text())["cases"][CASE]["runs"]
    rows = runs["exact"]["halo_bytes"] / WORKERS
    found: dict[str, dict[str, Epoch]] = {}
    for link, rate in LINKS.items():
        found[link] = {}
        for recipe, passes in RECIPES.items():
            sent = (runs[recipe]["halo_bytes"] + runs[recipe]["weight_bytes"]) / WORKERS
            found[link][recipe] = Epoch(computation(), passes * rows / MEMORY, sent / rate)
    return found


def expected(link: dict[str, Epoch]) -> str:
    """The first recipe, from the exact one on, for which the link is fast enough."""
    good = [name for name, epoch in link.items() if epoch.hidden <= ENOUGH * epoch.compute]
    least = min(link, key=lambda name: link[name].wire)
    return f"`{good[0]}`" if good else f"none; `{least}` waits least"


def milliseconds(seconds: float) -> str:
    """A time with two digits behind the point below 10 ms, and none above."""
    return f"{1e3 * seconds:.2f}" if seconds < 0.01 else f"{1e3 * seconds:,.0f}"


def table() -> str:
    """The table in Markdown: milliseconds on the wire, and the recipe to expect to pay."""
    lines = [
        f"| link | {' | '.join(f'`{name}`' for name in RECIPES)} | first that hides |",
        f"| --- | {' | '.join('---:' for _ in RECIPES)} | --- |",
    ]
    for link, recipes in epochs().items():
        cells = [milliseconds(epoch.wire) for epoch in recipes.values()]
        lines.append(f"| {link} | {' | '.join(cells)} | {expected(recipes)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table; with ``--write`` put it into the page."""
    coding = {name: epoch.coding for name, epoch in next(iter(epochs().values())).items()}
    print(f"computation {1e3 * computation():.1f} ms; coding, ms:", {k: round(1e3 * v, 2) for k, v in coding.items()})
    print(table())
    if "--write" in sys.argv[1:]:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
