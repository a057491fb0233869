"""GAT: graph attention (Velickovic et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.layers.activation import Activation
from halowire.layers.attention import Attending, Attention, AttentionLayer, AttentionVectors
from halowire.layers.dense import empty_rows, gradient_of
from halowire.layers.entry import Entry
from halowire.layers.features import FeatureMap, Inputs
from halowire.layers.layer import Layer, Work
from halowire.layers.model import Stack, register
from halowire.layers.rows import Kept, Rows
from halowire.partitioning import Shard
from halowire.wire import HaloExchange


class HeadJoin:
    """Joins the results of ``H`` heads, ``[m, H C]``, into rows: side by side, or as their mean ``[m, C]``."""

    def __init__(self, heads: int, cols: int, concat: bool) -> None:
        self._heads = heads
        self._cols = cols
        self._concat = concat
        self.width = heads * cols if concat else cols

    def forward(self, g: Tensor, bias: Tensor | None, out: Tensor) -> None:
        """``out = joined heads + b``, ``[m, width]``."""
        values = g if self._concat else g.view(len(g), self._heads, self._cols).mean(1)
        out.copy_(values) if bias is None else torch.add(values, bias, out=out)

    def backward(self, grad: Tensor) -> Tensor:
        """The gradient of all heads' results, ``[m, H C]``."""
        return grad if self._concat else (grad / self._heads).repeat(1, self._heads)


class GATConv(nn.Module):
    """The parameters of a graph attention layer: ``W`` ``[H C, in]``, score vectors ``[H, C]``, ``b`` ``[out]``."""

    def __init__(self, in_channels: int, out_channels: int, heads: int, concat: bool, seeds: torch.Generator) -> None:
        """``out_channels`` is the width of the result; where heads are concatenated, each gets an equal share of it."""
        super().__init__()
        if heads < 1 or (concat and out_channels % heads):
            raise InputError(f"{heads} heads cannot make {out_channels} columns; --model.heads must divide the width")
        cols = out_channels // heads if concat else out_channels
        self.weight = nn.Parameter(torch.empty(heads * cols, in_channels))
        self.att_src = nn.Parameter(torch.empty(heads, cols))
        self.att_dst = nn.Parameter(torch.empty(heads, cols))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.joins = HeadJoin(heads, cols, concat)
        for parameter in (self.weight, self.att_src, self.att_dst):
            nn.init.xavier_uniform_(parameter, generator=seeds)

    @property
    def vectors(self) -> AttentionVectors:
        """Both score vectors."""
        return AttentionVectors(self.att_src, self.att_dst)


class GATLayer(AttentionLayer):
    """A hidden or last layer: ``u' = joined heads of attention over z = v W^T, + b``.

    ``z`` travels where it is no wider than ``v``; then the receiver need not multiply. Where rows should travel before
    dropout (``undropped``, for changes of rows), ``z`` travels only if it is narrower than ``v``; if not ``narrow``,
    it never does.
    """

    def __init__(
        self, number: int, activation: Activation, conv: GATConv, undropped: bool, narrow: bool = True
    ) -> None:
        out, into = conv.weight.shape
        early = narrow and (out < into or (out == into and not undropped))
        super().__init__(number, activation, out if early else into, conv.joins.width, conv.weight if early else None)
        self.vectors = conv.vectors
        self.late_weight = None if early else conv.weight
        self.sum_width = out
        self._conv = conv

    @property
    def finish_parameters(self) -> list[nn.Parameter]:
        """The score vectors, the bias, and ``W`` where ``v`` travels."""
        late = [] if self.late_weight is None else [self.late_weight]
        return [*late, *self.vectors, self._conv.bias]

    def finish(self, kept: Kept, out: Tensor) -> None:
        """Join the heads, and add the bias."""
        assert kept.g is not None
        self._conv.joins.forward(kept.g, self._conv.bias, out)

    def finish_back(self, grad: Tensor, g_grad: Tensor) -> None:
        """Write the gradients of the heads to ``g_grad``, from that of the joined rows."""
        g_grad.copy_(self._conv.joins.backward(grad))

    def finish_weights(self, kept: Kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add to the bias' gradient; the aggregation adds to those of ``W`` and of the score vectors."""
        gradient_of(self._conv.bias).add_(grad.sum(0))

    @property
    def work(self) -> Work:
        """Two aggregations, two activations, and three products."""
        out_width, in_width = self._conv.weight.shape
        return Work(2 * out_width, 2 * in_width, 3 * out_width * in_width)


class FeatureAttention(Entry):
    """Layer 0 of GAT: attention over ``z = x W^T`` of owned and halo rows; then heads are joined and ``b`` is added."""

    def __init__(
        self, weight: nn.Parameter, vectors: AttentionVectors, bias: nn.Parameter | None, joins: HeadJoin
    ) -> None:
        """``weight`` is ``[H C, F]``."""
        self.width = joins.width
        self._map = FeatureMap(weight)
        self._vectors = vectors
        self._bias = bias
        self._joins = joins
        self._attending: Attending | None = None

    @property
    def parameters(self) -> list[nn.Parameter]:
        """``W``, both score vectors, and ``b``."""
        return [self._map.weight, *self._vectors, *([] if self._bias is None else [self._bias])]

    def begin(self, inputs: Inputs, rows: Rows) -> None:
        """Compute ``z`` of all rows and their scores."""
        super().begin(inputs, rows)
        self._attending = None  # its memory serves this pass
        edges, n = inputs.aggregation, inputs.num_rows
        assert isinstance(edges, Attention) and inputs.halo is not None
        z = empty_rows(self._map.weight, edges.num_held, self._map.weight.shape[0])
        inputs.whole().write(self._map.weight, z[:n])
        inputs.halo.write(self._map.weight, z[n:])
        self._attending = edges.attending(z, self._vectors, rows.training, whole=True)

    def forward(self, rows: Rows, out: Tensor, initial: Tensor | None) -> None:
        """Attend over the edges of these rows."""
        assert self._attending is not None
        self._attending.attend(rows.at)
        self._joins.forward(self._attending.out[rows.at], self._bias, out)

    def backward(self, rows: Rows, u: Tensor, grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add to the gradient of the bias."""
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))

    @property
    def needs_all_rows(self) -> bool:
        """Always true: any row may read a source, so a source's gradient needs all rows."""
        return True

    def end(self, grad: Tensor | None) -> None:
        """Add to the gradients of ``W`` and of the score vectors."""
        assert grad is not None and self._attending is not None and self.inputs.halo is not None
        found = self._attending.backward(self._joins.backward(grad))
        self._vectors.add_gradients(found.source, found.target)
        self._map.backward(self.inputs.whole(), found.own)
        self._map.backward(self.inputs.halo, found.halo)
        self._map.end()
        self._attending = None

    @property
    def work(self) -> Work:
        """Two aggregations, an activation and two products."""
        width = self._map.weight.shape[0]
        return Work(sums=2 * width, values=width, feature_products=2 * width)


@register("gat")
class GAT(Stack):
    r"""In each of ``H`` heads, ``u'_i = sum over j of a_ij W v_j`` with the in-neighbours ``j`` of ``i``, ``i`` itself,

    and ``a_ij = softmax over j of leaky_relu(<att_src, W v_j> + <att_dst, W v_i>)``. Heads are concatenated in the
    hidden layers and averaged in the last one; then ``b`` is added.
    """

    takes_heads = True
    can_split = False
    can_sample = False

    @staticmethod
    def aggregation(shard: Shard, exchange: HaloExchange) -> Attention:
        """The edges of ``shard``, made ready for attention."""
        return Attention.of(shard, exchange)

    def new_conv(self, in_channels: int, out_channels: int, last: bool, seeds: torch.Generator) -> nn.Module:
        """The parameters of a layer."""
        return GATConv(in_channels, out_channels, self.heads, not last, seeds)

    def entry_of(self, conv: nn.Module) -> Entry:
        """The first layer: attention over features."""
        assert isinstance(conv, GATConv)
        return FeatureAttention(conv.weight, conv.vectors, conv.bias, conv.joins)

    def layer_of(self, conv: nn.Module, number: int, activation: Activation, undropped: bool) -> Layer:
        """A later layer: attention over hidden rows."""
        assert isinstance(conv, GATConv)
        return GATLayer(number, activation, conv, undropped, self.shape.narrow)
