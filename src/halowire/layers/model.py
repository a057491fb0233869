"""Models: lists of blocks, each a graph layer and what follows it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.layers.activation import Activation
from halowire.layers.conv import GCNConv, GraphConv, SAGEConv
from halowire.layers.features import Features
from halowire.layers.gat import GATConv
from halowire.layers.overlap import BOUNDARY_FIRST
from halowire.layers.step import Step

NORMS = ("layer", "none")
Conv = GraphConv | GATConv


class Block(nn.Module):
    """A graph layer; in all but the last block followed by LayerNorm (optional), ReLU and dropout."""

    def __init__(self, conv: Conv, layer: int, channels: int, dropout: float, norm: bool, last: bool) -> None:
        super().__init__()
        self.conv = conv
        self.layer = layer
        self.dropout = dropout
        self.last = last
        self.gamma = nn.Parameter(torch.ones(channels)) if norm and not last else None
        self.beta = nn.Parameter(torch.zeros(channels)) if norm and not last else None

    def forward(self, h: Tensor | Features, step: Step, following: Conv | None = None) -> Tensor:
        """``[n, in]`` to ``[n, channels]``; the exchange of the layer ``following`` is launched on the way."""
        activation = None
        if not self.last:
            activation = Activation(self.gamma, self.beta, step.drop(self.dropout, self.layer))
        out: Tensor = self.conv(
            h, step, self.layer, activation, None if following is None else following.followed(step)
        )
        return out


class GraphModel(nn.Module):
    """``layers`` blocks of one kind of graph layer: ``in -> hidden -> ... -> hidden -> out``."""

    conv: type[GraphConv] = SAGEConv
    takes_residual = True
    """whether a share of a hidden block's input can be added to its output"""
    takes_heads = False
    """whether it attends to its neighbours, with several heads"""
    can_split = True
    """whether it can run in several stages and chunks"""
    aggregates_input = True
    """whether its first layer sums the raw features over the edges"""
    default_norm = "layer"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 3,
        dropout: float = 0.5,
        norm: str = "layer",
        seed: int = 0,
        residual: float = 0.0,
        heads: int = 1,
    ) -> None:
        """``residual``: share of a hidden block's input in its output (see ``pipeline``); 0 is none.

        ``heads`` of attention, for models that have it.
        """
        super().__init__()
        self.residual = residual
        if norm not in NORMS:
            raise InputError(f"norm {norm!r} is unknown; use one of {', '.join(NORMS)}")
        if num_layers < 1 or hidden_channels < 1:
            raise InputError(
                f"a model of {num_layers} layers, {hidden_channels} wide, cannot be; both must be at least 1"
            )
        if not 0 <= dropout < 1:
            raise InputError(f"dropout is {dropout}; it must lie in 0 <= p < 1")
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        generator = torch.Generator().manual_seed(seed)
        self.blocks = nn.ModuleList()
        for layer in range(num_layers):
            last = layer == num_layers - 1
            conv = self.make_conv(widths[layer], widths[layer + 1], heads, last)
            conv.reset_parameters(generator)
            self.blocks.append(Block(conv, layer, widths[layer + 1], dropout, norm == "layer", last))

    @classmethod
    def make_conv(cls, in_channels: int, out_channels: int, heads: int, last: bool) -> Conv:
        """The graph layer of a block."""
        return cls.conv(in_channels, out_channels)

    def forward(self, x: Features, step: Step) -> Tensor:
        """Logits of the owned rows, ``[n, out_channels]``."""
        step.spread.exchange.begin(step.epoch if step.training else None)
        h: Tensor | Features = x
        following = [*(block.conv for block in self.blocks[1:]), None]
        for block, conv in zip(self.blocks, following, strict=True):
            h = block(h, step, conv)
        assert isinstance(h, Tensor)
        return h

    def overlap(self) -> dict[int, str]:
        """How the exchange of every layer is hidden; layer 0 has none. Each is launched by the block before."""
        return dict.fromkeys(range(1, len(self.blocks)), BOUNDARY_FIRST)


def exchanged_widths(
    in_channels: int, hidden_channels: int, out_channels: int, num_layers: int, heads: int = 1
) -> list[int]:
    """Columns of the rows that travel in every exchange: ``min(in, out)`` of layers 1, 2, ...; layer 0 needs none.

    The last layer's product has ``heads`` times ``out_channels`` columns.
    """
    widths = [in_channels, *[hidden_channels] * (num_layers - 1), heads * out_channels]
    return [min(widths[layer], widths[layer + 1]) for layer in range(1, num_layers)]


class GCN(GraphModel):
    """A stack of :class:`GCNConv` blocks."""

    conv = GCNConv


class SAGE(GraphModel):
    """A stack of :class:`SAGEConv` blocks (mean aggregator)."""

    conv = SAGEConv


class GAT(GraphModel):
    """A stack of :class:`GATConv` blocks: heads concatenated in the hidden ones, averaged in the last."""

    takes_residual = False
    takes_heads = True
    can_split = False
    aggregates_input = False

    @classmethod
    def make_conv(cls, in_channels: int, out_channels: int, heads: int, last: bool) -> Conv:
        """The attention layer of a block."""
        return GATConv(in_channels, out_channels, heads, concat=not last)


MODELS: dict[str, type[GraphModel]] = {"sage": SAGE, "gcn": GCN, "gat": GAT}
