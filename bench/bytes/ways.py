"""The ways in which rows travel that are compared: every row, without each of the exact reductions, and without all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from halowire.training import Config

LAYERS = (3, 2)
PLAIN = "plain"
CHOSEN = "chosen"
ALL = "all"
HOME_AND_SUMS = "both"
AGAIN = "plain again"
"""Every row, measured a second time: what it differs by is noise."""
TWO_PLAIN = "2 hosts, plain"
TWO_ONCE = "2 hosts, once"
TWO_ALL = "2 hosts, all"


@dataclass(frozen=True)
class Way:
    """A partitioner, settings beside those of `exact`, and the number of machines that the workers are spread over.

    With one machine every worker counts as one on a network of its own.
    """

    method: str = "metis"
    settings: dict[str, Any] = field(default_factory=dict)
    hosts: int = 1

    def config(self, layers: int) -> Config:
        """The settings of `exact`, with ``layers`` layers."""
        return Config(epochs=2).replace({"model.layers": layers, "threads": 1, **self.settings})


EVERY_ROW = {"wire.plain": True}
HOME = {"wire.first_layer": "local", "wire.cover": "off"}
SUMS = {"wire.first_layer": "exchange", "wire.cover": "on"}
BOTH = {"wire.first_layer": "local", "wire.cover": "on"}
WAYS = {
    PLAIN: Way(settings=EVERY_ROW),
    "first layer": Way(settings=HOME),
    "sums": Way(settings=SUMS),
    HOME_AND_SUMS: Way(settings=BOTH),
    "hypergraph": Way("hypergraph", EVERY_ROW),
    ALL: Way("hypergraph", BOTH),
    CHOSEN: Way(settings={}),
    TWO_PLAIN: Way(settings=EVERY_ROW, hosts=2),
    TWO_ONCE: Way(settings=EVERY_ROW | {"mesh.hosts": 2}, hosts=2),
    TWO_ALL: Way("hypergraph", BOTH | {"mesh.hosts": 2}, hosts=2),
}
"""By name; ``chosen`` is what `exact` does by itself between machines at 1 Gbit/s."""
