"""Models: lists of blocks, each a graph layer and what follows it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from halowire.kernels import InputError
from halowire.kernels.activate import activate
from halowire.kernels.random import Drop
from halowire.nn.activation import norm_relu_dropout
from halowire.nn.conv import GCNConv, GraphConv, SAGEConv
from halowire.nn.features import Features
from halowire.nn.graph_linear import Undropped
from halowire.nn.propagation import Propagation

NORMS = ("layer", "none")


@dataclass(frozen=True, eq=False)
class Step:
    """One pass through the model: over which graph, and with which random numbers."""

    spread: Propagation
    ids: Tensor
    seed: int = 0
    epoch: int = 0
    training: bool = False
    undropped: dict[int, Undropped] = field(default_factory=dict)

    def drop(self, p: float, layer: int) -> Drop | None:
        """The dropout of ``layer`` in this pass, or None where nothing is dropped."""
        return self._drop(p, layer, self.ids)

    def keep_undropped(self, rows: Tensor, p: float, layer: int) -> None:
        """Remember boundary ``rows`` before the dropout of ``layer``, for the exchange of the layer after it."""
        self.undropped[layer + 1] = Undropped(rows, self._drop(p, layer, self.spread.exchange.halo_ids))

    def _drop(self, p: float, layer: int, ids: Tensor) -> Drop | None:
        return Drop(p, self.seed, self.epoch, layer, ids) if self.training and p > 0 else None


class Block(nn.Module):
    """A graph layer; in all but the last block followed by LayerNorm (optional), ReLU and dropout."""

    def __init__(self, conv: GraphConv, layer: int, channels: int, dropout: float, norm: bool, last: bool) -> None:
        super().__init__()
        self.conv = conv
        self.layer = layer
        self.dropout = dropout
        self.last = last
        self.gamma = nn.Parameter(torch.ones(channels)) if norm and not last else None
        self.beta = nn.Parameter(torch.zeros(channels)) if norm and not last else None

    def forward(self, h: Tensor | Features, step: Step) -> Tensor:
        """``[n, in]`` to ``[n, channels]``."""
        out: Tensor = self.conv(h, step.spread, self.layer, step.undropped.get(self.layer))
        if self.last:
            return out
        if step.training and step.spread.exchange.sends_undropped:
            boundary = out.detach()[: step.spread.exchange.num_boundary]
            step.keep_undropped(activate(boundary, self.gamma, self.beta, True, None)[0], self.dropout, self.layer)
        return norm_relu_dropout(out, self.gamma, self.beta, step.drop(self.dropout, self.layer))


class GraphModel(nn.Module):
    """``layers`` blocks of one kind of graph layer: ``in -> hidden -> ... -> hidden -> out``."""

    conv: type[GraphConv] = SAGEConv

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 3,
        dropout: float = 0.5,
        norm: str = "layer",
        seed: int = 0,
    ) -> None:
        super().__init__()
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
            conv = self.conv(widths[layer], widths[layer + 1])
            conv.reset_parameters(generator)
            last = layer == num_layers - 1
            self.blocks.append(Block(conv, layer, widths[layer + 1], dropout, norm == "layer", last))

    def forward(self, x: Features, step: Step) -> Tensor:
        """Logits of the owned rows, ``[n, out_channels]``."""
        step.spread.exchange.begin(step.epoch if step.training else None)
        h: Tensor | Features = x
        for block in self.blocks:
            h = block(h, step)
        assert isinstance(h, Tensor)
        return h


def exchanged_widths(in_channels: int, hidden_channels: int, out_channels: int, num_layers: int) -> list[int]:
    """Columns of the rows that travel in every exchange: ``min(in, out)`` of layers 1, 2, ...; layer 0 needs none."""
    widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
    return [min(widths[layer], widths[layer + 1]) for layer in range(1, num_layers)]


class GCN(GraphModel):
    """A stack of :class:`GCNConv` blocks."""

    conv = GCNConv


class SAGE(GraphModel):
    """A stack of :class:`SAGEConv` blocks (mean aggregator)."""

    conv = SAGEConv


MODELS: dict[str, type[GraphModel]] = {"gcn": GCN, "sage": SAGE}
