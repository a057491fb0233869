"""A layer normalises its edges once: their weights stay the same tensor, so that sums of features can be kept."""

from __future__ import annotations

from inspect import signature
from typing import Any

from torch import Tensor

from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.pattern import version_of


class SteadyNorm:
    """Lets a ``GCNConv`` and its like normalise its edges once, and anew only when it gets other edges or weights.

    So it is where rows of the halo are computed at home, or partial sums travel to the layer, whose ``name`` it has.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._keeps = False  # whether the layer keeps edges because of this
        self._last: list[tuple[Tensor, int]] = []

    def __deepcopy__(self, memo: dict[int, object]) -> SteadyNorm:
        """A copy that remembers nothing: a copied layer normalises its edges anew."""
        copied = SteadyNorm(self._name)
        copied._keeps = self._keeps
        return copied

    def __call__(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forget the normalised edges of a call with others; weights that are learnt change in every pass."""
        given = dict(zip(signature(type(layer).forward).parameters, (layer, *args), strict=False)) | kwargs
        edges = given.get("edge_index")
        if not isinstance(edges, Edges) or not self._is_steady(edges):
            if self._keeps:
                layer._cached_edge_index = None
                layer.cached = False
                self._last = []
                self._keeps = False
            return
        self._keeps = True
        tensors = [given[name] for name in ("edge_index", "edge_weight") if isinstance(given.get(name), Tensor)]
        now = [(value, version_of(unmarked(value))) for value in tensors]
        pairs = zip(now, self._last, strict=False)
        same = len(now) == len(self._last) and all(a is b and -1 < v == w for (a, v), (b, w) in pairs)
        if not same:
            layer._cached_edge_index = None
            self._last = now
        layer.cached = not any(value.requires_grad for value in tensors)

    def _is_steady(self, edges: Edges) -> bool:
        """Whether the layer gets the same edges and weights in every pass, and something is kept that needs them."""
        passing = getattr(edges.bridge, "passing", None)
        if passing is None:
            return False
        return passing.home is not None or (passing.exchanges is not None and self._name in passing.exchanges.summing)
