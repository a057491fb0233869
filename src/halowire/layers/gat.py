"""The graph attention layer: GAT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.layers.activation import Activation
from halowire.layers.attend_input import AttendFeatures, AttendHidden
from halowire.layers.attend_map import AttendMap, GatWeights
from halowire.layers.boundary_first import boundary_first
from halowire.layers.departure import Following
from halowire.layers.features import Features
from halowire.layers.step import Step

SLOPE = 0.2


class GATConv(nn.Module):
    r"""Graph attention (Velickovic et al. 2018): in each of ``H`` heads, ``out_i = sum over j of a_ij W x_j`` with

    ``a_ij = softmax over j of leaky_relu(<att_src, W x_j> + <att_dst, W x_i>)``, ``j`` the in-neighbours of ``i`` and
    ``i`` itself. The heads are concatenated, or averaged (``concat=False``); then ``b`` is added.

    Shapes: ``[n, in_channels]`` (or the prepared input :class:`Features` of layer 0) to ``[n, out_channels]``.
    """

    def __init__(
        self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True, bias: bool = True
    ) -> None:
        """``out_channels`` is the width of the result; where heads are concatenated, they divide it."""
        super().__init__()
        if heads < 1 or (concat and out_channels % heads):
            raise InputError(f"{heads} heads cannot make {out_channels} columns; --model.heads must divide the width")
        self.concat = concat
        cols = out_channels // heads if concat else out_channels
        self.weight = nn.Parameter(torch.empty(heads * cols, in_channels))
        self.att_src = nn.Parameter(torch.empty(heads, cols))
        self.att_dst = nn.Parameter(torch.empty(heads, cols))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.width = out_channels

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Glorot for the map and the score vectors, zero for the bias, from ``generator`` alone."""
        for weight in (self.weight, self.att_src, self.att_dst):
            nn.init.xavier_uniform_(weight, generator=generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def followed(self, step: Step) -> Following:
        """What the block before must know of this layer to launch its exchange.

        Rows travel multiplied where that makes them no wider: the receiver need not multiply them again. Rows that
        must travel before dropout (delta coding) can be multiplied only where that narrows them.
        """
        out, into = self.weight.shape
        return Following(self.weight, out < into or (out == into and not step.sends_undropped))

    def forward(
        self,
        x: Tensor | Features,
        step: Step,
        layer: int,
        activation: Activation | None = None,
        following: Following | None = None,
    ) -> Tensor:
        """Run the layer and ``activation`` after it; ``layer`` names its exchange in the ledger.

        Given the layer after it, ``following``, it also launches that layer's exchange.
        """
        weights = GatWeights(self.weight, self.att_src, self.att_dst, self.bias)
        if isinstance(x, Features):
            layer_map: AttendMap = AttendFeatures(x, weights, self.concat, SLOPE, step)
        else:
            departure = step.departed.pop(layer, None)
            layer_map = AttendHidden(x, self.followed(step), departure, weights, self.concat, SLOPE, step, layer)
        rows = None if isinstance(x, Features) else x
        return boundary_first(layer_map, rows, weights, self.width, activation, following, step, layer)
