"""On a fast path, a PyG layer that sums, averages or attends runs on halowire's kernels; every call is counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.kernels import MOST_HEADS
from halowire.layers import Attending, AttentionGradients, Incoming, Summing, empty_rows, gather_whole, scatter_whole
from halowire.pyg.bridge import Bridge
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.home_rows import HomeRows, bare, product
from halowire.pyg.layer_sums import MOST_LISTS, LayerSums, SteadyInputs
from halowire.pyg.pattern import Pattern, Weighted
from halowire.pyg.row_order import DegreeForward, TypeForward
from halowire.pyg.stacked import Stacked
from halowire.pyg.steady_norm import NORMALISING, SteadyNorm
from halowire.schedules import NOT_HIDDEN, plain_overlap
from halowire.wire import Crossing

WEIGHTS = {
    "GCNConv": "edge_weight", "GCN2Conv": "edge_weight", "GraphConv": "edge_weight", "APPNP": "edge_weight",
    "SGConv": "edge_weight", "SSGConv": "edge_weight", "TAGConv": "edge_weight", "LGConv": "edge_weight",
    "ChebConv": "norm", "SAGEConv": "", "GINConv": "",
}  # fmt: skip
"""Layers of ``torch_geometric.nn`` with messages ``weight_e x_j``, and the name of their weight (empty: it is 1)."""
SUMS = ("add", "sum", "mean")
STEADY = ("GCNConv", "SAGEConv", "GraphConv", "GINConv")
"""Layers whose weights of edges stay the same tensor from pass to pass, so that a sum of features is kept."""
HOOKS = [
    f"_{method}_forward{when}_hooks" for method in ("propagate", "message", "aggregate", "edge_update")
    for when in ("_pre", "")
]  # fmt: skip
NATIVE = "native"
GENERAL = "general"
UNUSED = "not trained yet"


@dataclass
class LayerPath:
    """What served one layer's calls in training passes.

    ``kind`` is the layer's class. ``native`` and ``general`` count the calls that halowire's kernels and PyG's own code
    served: every propagation is a call, and calls of a layer without a fast path are not counted. ``reason`` is why the
    layer has no fast path, or why its last general call was not native. ``sums`` is true for a layer whose kernels sum
    the edges between owned nodes while the halo's rows are under way.
    """

    kind: str
    native: int = 0
    general: int = 0
    reason: str = ""
    sums: bool = False

    def count(self, layer: nn.Module, obstacle: str) -> None:
        """Count a training call of ``layer``: general if there is an ``obstacle``, native if it is empty."""
        if not (layer.training and torch.is_grad_enabled()):
            return
        if obstacle:
            self.general += 1
            self.reason = obstacle
        else:
            self.native += 1

    @property
    def path(self) -> str:
        """``native``, ``general``, ``native and general`` (both served calls) or ``not trained yet``."""
        if self.native:
            return f"{NATIVE} and {GENERAL}" if self.general else NATIVE
        return GENERAL if self.reason else UNUSED

    @property
    def overlap(self) -> str:
        """How the layer's exchange was hidden behind computation."""
        if self.sums and self.path == NATIVE:
            return plain_overlap("PyG model")
        reason = "attention takes all rows at once" if self.path == NATIVE else "PyG's own code takes all rows at once"
        return f"{NOT_HIDDEN}: {reason}"

    def record(self) -> dict[str, Any]:
        """The layer's entry in ``summary.json``."""
        return {"kind": self.kind, "path": self.path, "reason": self.reason}


def overlap_by_layer(paths: dict[str, LayerPath]) -> dict[str, str]:
    """How the exchange of every layer was hidden, for the report; one entry for a model without PyG layers."""
    if not paths:
        return {"all": f"{NOT_HIDDEN}: the model's own code takes all rows at once"}
    return {name or "all": path.overlap for name, path in paths.items() if path.path != UNUSED}


def use_fast_paths(model: nn.Module) -> dict[str, LayerPath]:
    """Give the fast path to every layer that can have it; return how every PyG layer runs, counted from now on."""
    package = sys.modules.get("torch_geometric.nn")
    if package is None:
        return {}
    weights = {getattr(package, name): weight for name, weight in WEIGHTS.items()}
    normalising = {getattr(package, name) for name in NORMALISING}
    paths: dict[str, LayerPath] = {}
    for name, module in model.named_modules():
        layer: Any = module
        if type(layer) is package.HeteroLinear:
            layer.forward = TypeForward(layer)
        if not isinstance(layer, package.MessagePassing):
            continue
        kind = type(layer)
        path = paths[name] = LayerPath(kind.__name__, sums=kind in weights)
        if kind in normalising:
            layer.register_forward_pre_hook(SteadyNorm(), with_kwargs=True)
        # An attribute of the instance is found before the method of its class; parameters and buffers stay.
        if path.sums:
            path.reason = "" if layer.aggr in SUMS else f"aggr is {layer.aggr}"
            if not path.reason:
                layer.propagate = FastSum(layer, path, weights[kind], name)
                layer.register_forward_pre_hook(layer.propagate.sums.note, with_kwargs=True)
        elif kind is package.GATConv:
            path.reason = _misfit_of_gat(layer)
            if not path.reason:
                layer.forward = FastAttention(layer, path)
        else:
            path.reason = "halowire has no kernel for this kind of layer"
            if kind is package.MFConv:
                layer.forward = DegreeForward(layer)
    return paths


class FastPath:
    """Stands in for a method of one layer, and calls that method where the fast path does not apply."""

    def __init__(self, layer: Any, path: LayerPath) -> None:
        self._layer = layer
        self._path = path
        self._pattern: Pattern | None = None

    def _serves(self, edge_index: Any, rows: Any, size: Any, *obstacles: tuple[bool, str]) -> bool:
        """Whether the kernels serve this call; count it. ``obstacles`` are the further ones of this kind of layer."""
        layer = self._layer
        if not isinstance(edge_index, Edges):
            obstacle = "its edges are not those of the part"
        elif isinstance(edge_index.bridge, Stacked):
            obstacle = "its edges are joined from several types"
        elif not isinstance(rows, Tensor) or rows.dim() != 2 or rows.shape[0] != edge_index.bridge.num_owned:
            obstacle = "its input is not one row per node"
        else:
            against = layer.flow != "source_to_target" or edge_index.sources != (True, False)
            obstacle = _first_of(
                (against, "messages go against the edges"),
                (edge_index.bridge.drawn, "its edges were drawn"),
                (size is not None and tuple(size) != (None, None), "it is called with size"),
                (rows.dtype != torch.float32, f"its input is {rows.dtype}"),
                *obstacles,
                (bool(layer.explain), "it is being explained"),
                (layer.decomposed_layers != 1, "it is decomposed"),
                (any(getattr(layer, name) for name in HOOKS), "it has hooks on its messages"),
            )
        self._path.count(layer, obstacle)
        return not obstacle

    def _sorted(self, edge_index: Edges, loops: bool = False) -> Pattern:
        """``edge_index`` ready for the kernels, sorted anew where it changed since the last call."""
        edges = unmarked(edge_index)
        if self._pattern is None or not self._pattern.serves(edges):
            assert not isinstance(edge_index.bridge, Stacked)
            self._pattern = Pattern.of(edges, edge_index.bridge, loops)
        return self._pattern


@dataclass(frozen=True, eq=False)
class KeptSum:
    """The sums ``A x`` of owned rows, ``own``, and ``of_halo`` rows, of features whose halo rows are ``halo``."""

    given: SteadyInputs
    halo: Tensor
    own: Tensor
    of_halo: Tensor

    def __deepcopy__(self, memo: dict[int, object]) -> KeptSum:
        """Return the same sums: a copied layer sums the same features."""
        return self


class FastSum(FastPath):
    """Replaces ``propagate`` of a layer that sums or averages rows, and may get partial sums in their place.

    ``weight_name`` is the name of its edge weight, ``name`` that of the layer.
    """

    def __init__(self, layer: Any, path: LayerPath, weight_name: str, name: str) -> None:
        super().__init__(layer, path)
        self.sums = LayerSums(name)
        self._weight_name = weight_name
        self._kept: list[KeptSum] = []

    def __call__(self, edge_index: Any, size: Any = None, **inputs: Any) -> Tensor:
        """The layer's aggregated messages."""
        layer, x = self._layer, inputs.get("x")
        rows: Any = x[0] if isinstance(x, tuple) else x
        ends: Any = x[1] if isinstance(x, tuple) else x
        weight = inputs.get(self._weight_name) if self._weight_name else None
        learnt = weight is not None and weight.requires_grad
        obstacles = (
            (layer.aggr not in SUMS, f"aggr is {layer.aggr}"),
            (learnt, "the edges' weights are learnt"),
            (not _leads_to(edge_index, ends), "its targets are given without a row for each"),
        )
        if not self._serves(edge_index, rows, size, *obstacles):
            usual: Tensor = type(layer).propagate(layer, edge_index, size=size, **inputs)
            return usual

        def matrices() -> Weighted:
            values = None if weight is None else weight.detach().reshape(-1)
            return self._sorted(edge_index).weighted(values, layer.aggr == "mean")

        bridge: Bridge = edge_index.bridge
        if isinstance(rows, HomeRows) and rows.knows(bridge):
            summed = self._home_sum(rows, matrices)
            if summed is not None:
                return summed
        held = bridge.held(rows)
        given: tuple[Any, ...]
        if held is None:
            rows = bare(rows)
            given = rows, *self.sums.routed(bridge, bridge.crossing(rows), matrices)
        else:
            given = held, matrices(), None
        out: Tensor = WeightedSum.apply(*given)  # type: ignore[no-untyped-call]
        return out

    def _home_sum(self, rows: HomeRows, matrices: Callable[[], Weighted]) -> HomeRows | None:
        """The sum of features, or of their products with a weight, ``A x W = (A x) W``, which knows its halo too.

        ``A x`` is added up once, and its halo rows come from their owners once: whether they are here already, all
        workers find alike, from what the layer is called with. None where ``rows`` are others.
        """
        origin = (rows, None) if rows.constant else rows.origin
        given = self.sums.given
        if origin is None or given is None or type(self._layer).__name__ not in STEADY:
            return None
        features, weight = origin
        home = features.home
        alike = [one for one in self._kept if one.halo is features.halo]
        kept = next((one for one in alike if one.given.same(given)), None)
        if kept is None:
            home.sums_anew |= bool(alike)
            own = matrices().rows.sum(bare(features), features.halo)
            kept = KeptSum(given, features.halo, own, home.bridge.fetch_once(own))
            self._kept = [*self._kept[1 - MOST_LISTS :], kept]
        home.summed = True
        found = HomeRows.of(kept.own, kept.of_halo, home, constant=True)
        if weight is None:
            return found
        rows.home.saved.append(rows.shape[1])
        return product(found, weight)


class FastAttention(FastPath):
    """Replaces ``forward`` of a ``GATConv``, and uses the layer's own parameters."""

    def __call__(
        self, x: Any, edge_index: Any, edge_attr: Any = None, size: Any = None, return_attention_weights: Any = None
    ) -> Any:
        """The layer's output, ``[n, H C]`` or, if heads are averaged, ``[n, C]``."""
        layer = self._layer
        if not self._serves(
            edge_index, x, size,
            (layer.training and layer.dropout > 0, "dropout of attention while training"),
            (edge_attr is not None, "edge features"),
            (return_attention_weights is not None, "its attention weights are asked for"),
        ):  # fmt: skip
            return type(layer).forward(layer, x, edge_index, edge_attr, size, return_attention_weights)
        pattern = self._sorted(edge_index, layer.add_self_loops)
        held = edge_index.bridge.extend(layer.lin(x), 0)
        given = (held, layer.att_src[0], layer.att_dst[0], pattern, layer.negative_slope, torch.is_grad_enabled())
        out: Tensor = Attend.apply(*given)  # type: ignore[no-untyped-call]
        if not layer.concat:
            out = out.view(len(out), layer.heads, layer.out_channels).mean(1)
        if layer.res is not None:
            out = out + layer.res(x)
        # The model gets a copy, because it may change rows in place that backward needs.
        return out.clone() if layer.bias is None else out + layer.bias


class WeightedSum(Function):
    """``out_i = sum over edges e = (j, i) of w_e x_j``, ``inner @ x + halo @ x_halo``; no gradient for the weights.

    ``x`` is ``[n, k]`` if its halo rows must be fetched, or ``[n + h, k]`` if they are already there. Edges between
    owned nodes are summed while messages travel: the halo's rows in forward, their gradients in backward.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, edges: Weighted, crossing: Crossing | None) -> Tensor:
        """Sum the edges between owned nodes while the halo's rows travel, then decode and add the halo's rows."""
        x, n = x.contiguous(), edges.inner.num_rows
        ctx.edges = edges
        if crossing is None:
            ctx.summing = None
            return edges.rows.sum(*torch.split(x, [edges.inner.num_cols, edges.halo.num_cols]))
        incoming = Incoming(crossing.start(x))
        ctx.crossing = crossing
        rows = edges.sum(crossing.exchange)
        # An output that its own graph node held would never be freed: the node gets a sum without it.
        ctx.summing = Summing(rows, crossing.number, x.new_empty(0, 0))
        return gather_whole(Summing(rows, crossing.number, empty_rows(x, n, x.shape[1])), x, incoming, n)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Send the halo's gradients, sum those of owned rows meanwhile, then add the gradients that arrive."""
        grad = grads[0].contiguous()
        if ctx.summing is None:
            own, edges = ctx.edges.inner_t.matmul(grad), ctx.edges
            return torch.cat([own, edges.halo_t.matmul(grad)]) if edges.halo.num_cols else own, None, None
        with ctx.crossing.backward():
            return scatter_whole(ctx.summing, grad, None, ctx.crossing.exchange), None, None


class Attend(Function):
    """Turns ``z`` ``[n + h, H C]`` and score vectors ``[H, C]`` into ``[n, H C]``; see `halowire.kernels.attend`."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, source: Tensor, target: Tensor, pattern: Pattern, slope: float, backward: bool
    ) -> Tensor:
        """Attend with one softmax over the edges from owned and from halo nodes."""
        edges = pattern.attention
        attending = Attending(edges, z, (source, target), slope, keep=backward, whole=True)
        attending.attend(slice(0, edges.forth.num_rows))
        out = attending.out
        if backward:
            # As saved tensors they do not keep the output's graph alive, and a change in place is noticed.
            ctx.save_for_backward(z, source, target, out)
            attending.out = z.new_empty(0, 0)
            ctx.attending = attending
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of ``z`` and of both score vectors."""
        attending = ctx.attending
        attending.out = ctx.saved_tensors[3]
        found: AttentionGradients = attending.backward(grads[0])
        attending.out = found.own.new_empty(0, 0)
        return torch.cat([found.own, found.halo]), found.source, found.target, None, None, None


def _misfit_of_gat(layer: Any) -> str:
    """The option of a ``GATConv`` that the kernels do not support; empty where they support all of its options."""
    return _first_of(
        (layer.lin is None, "sources and targets have different widths"),
        (layer.lin_edge is not None, "edge features"),
        (layer.aggr not in ("add", "sum"), f"aggr is {layer.aggr}"),
        (layer.heads > MOST_HEADS, f"more than {MOST_HEADS} heads"),
        (not 0 <= layer.negative_slope <= 1, f"negative_slope is {layer.negative_slope}"),
    )


def _leads_to(edge_index: Any, rows: Any) -> bool:
    """Whether ``rows`` has one row for each target of the edges, so that PyG takes as many targets as there are."""
    bridge = edge_index.bridge if isinstance(edge_index, Edges) else None
    return isinstance(bridge, Bridge) and isinstance(rows, Tensor) and rows.shape[0] == bridge.num_targets


def _first_of(*found: tuple[bool, str]) -> str:
    """The words of the first condition in ``found`` that holds; empty where none does."""
    return next((words for holds, words in found if holds), "")
