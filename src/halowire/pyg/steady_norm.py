"""A layer normalises its edges once: it keeps them while it is called with the same edges and weights.

So their weights stay the same tensors, of which sums of features can be kept, and on a device the host need not wait
for PyG to take the self loops out of the edges, nor for a comparison with the edges of the last pass.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from torch import Tensor

from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.seen import version_of

NORMALISING = ("GCNConv", "GCN2Conv", "APPNP", "DNAConv", "EGConv", "FAConv")
"""Layers of ``torch_geometric.nn`` that normalise their edges in every pass, or once for good if ``cached``."""
OPTIONS = ("normalize", "improved", "add_self_loops", "flow", "aggregators")
"""What else decides on the normalised edges."""


class SteadyNorm:
    """Lets a ``GCNConv`` and its like normalise its edges once, and anew only when it gets other edges or weights."""

    def __init__(self) -> None:
        self._last: list[tuple[Tensor, int]] = []
        self._options: tuple[Any, ...] = ()

    def __deepcopy__(self, memo: dict[int, object]) -> SteadyNorm:
        """A copy that remembers nothing: a copied layer normalises its edges anew."""
        return SteadyNorm()

    def __call__(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forget the normalised edges of a call with others; weights that are learnt change in every pass."""
        given = dict(zip(signature(type(layer).forward).parameters, (layer, *args), strict=False)) | kwargs
        x = given.get("x")
        if not isinstance(given.get("edge_index"), Edges) or not isinstance(x, Tensor):
            if self._last:
                layer._cached_edge_index = None
                layer.cached = False
                self._last = []
            return
        tensors = [given[name] for name in ("edge_index", "edge_weight") if isinstance(given.get(name), Tensor)]
        now = [(value, version_of(unmarked(value))) for value in tensors]
        options = (x.size(layer.node_dim), x.dtype, *(getattr(layer, name, None) for name in OPTIONS))
        pairs = zip(now, self._last, strict=False)
        same = len(now) == len(self._last) and all(a is b and -1 < v == w for (a, v), (b, w) in pairs)
        if not same or options != self._options:
            layer._cached_edge_index = None
            self._last, self._options = now, options
        layer.cached = not any(value.requires_grad for value in tensors)
