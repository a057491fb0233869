"""A stage: the blocks of a model that one worker runs, with the parameters that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from halowire.layers.conv import GraphConv
from halowire.layers.deep import GCNII, DeepBlock, DeepModel, Linear
from halowire.layers.model import Block, GraphModel
from halowire.schedules.blocks import ConvBlock, GraphBlock, InitialBlock
from halowire.schedules.pieces import Entry, Head, InputConv, Projection
from halowire.schedules.rows import Activate

Model = GraphModel | DeepModel


@dataclass(frozen=True, eq=False)
class Stage:
    """``entry`` (first stage only), some blocks, ``head`` (last stage of a deep model only).

    Attributes:
        parameters: those that this stage trains, by their names in the model, in the model's order.
        initial: whether the blocks read the initial rows.
        width: columns of the rows that enter the stage from another, and of the initial rows.
    """

    entry: Entry | None
    blocks: tuple[GraphBlock, ...]
    head: Head | None
    parameters: dict[str, nn.Parameter]
    initial: bool
    width: int
    layer: int
    """the exchange of the rows that enter the stage"""

    @property
    def out_width(self) -> int:
        """Columns of the rows that leave the stage."""
        if self.head is not None:
            return self.head.width
        if self.blocks:
            return self.blocks[-1].out_width
        assert self.entry is not None
        return self.entry.width

    @staticmethod
    def of(model: Model, first: int, stop: int) -> Stage:
        """Blocks ``first`` to ``stop`` of ``model``."""
        return _deep(model, first, stop) if isinstance(model, DeepModel) else _plain(model, first, stop)


def exchange_layer(model: Model, block: int) -> int:
    """The number of the exchange of a block's rows; layer 0 of GCN and GraphSAGE has none, so they count from 1."""
    return block + 1 if isinstance(model, DeepModel) else block


@dataclass(eq=False)
class _Collected:
    """Parameters as they are used; a stage trains what its pieces use."""

    used: list[Tensor | None] = field(default_factory=list)

    def take(self, *parameters: nn.Parameter | None) -> None:
        self.used += parameters

    def of(self, model: nn.Module) -> dict[str, nn.Parameter]:
        used = {id(parameter) for parameter in self.used if parameter is not None}
        return {name: parameter for name, parameter in model.named_parameters() if id(parameter) in used}


def _plain(model: GraphModel, first: int, stop: int) -> Stage:
    """A block begins with the activation of the block before it, so that rows between blocks are never dropped."""
    found = _Collected()
    blocks: list[GraphBlock] = []
    entry: Entry | None = None
    layers = [block for block in model.blocks if isinstance(block, Block)]
    for number in range(first, stop):
        block = layers[number]
        conv = block.conv
        assert isinstance(conv, GraphConv), "attention runs in one stage"
        found.take(conv.weight, conv.weight_self, conv.bias)
        if number == 0:
            entry = InputConv(conv.weight, conv.weight_self, conv.bias)
            continue
        previous = layers[number - 1]
        found.take(previous.gamma, previous.beta)
        activate = Activate(previous.gamma, previous.beta, block.dropout, number - 1)
        share = 0.0 if block.last else model.residual
        blocks.append(ConvBlock(number, activate, conv.weight, conv.weight_self, conv.bias, 1 - share, share))
    width = layers[max(first, 1)].conv.weight.shape[1] if len(layers) > 1 else 0
    return Stage(entry, tuple(blocks), None, found.of(model), False, width, exchange_layer(model, first))


def _deep(model: DeepModel, first: int, stop: int) -> Stage:
    found = _Collected()
    blocks: list[GraphBlock] = []
    entry: Entry | None = None
    head: Head | None = None
    if first == 0:
        found.take(*_both(model.input))
        entry = Projection(*_both(model.input))
    for number in range(first, stop):
        block = model.blocks[number]
        assert isinstance(block, DeepBlock)
        found.take(*_both(block.conv), block.gamma, block.beta)
        activate = Activate(block.gamma, block.beta, model.dropout, number)
        layer = exchange_layer(model, number)
        if isinstance(model, GCNII):
            blocks.append(InitialBlock(layer, activate, block.conv.weight, model.alpha, model.theta(number)))
        else:
            blocks.append(ConvBlock(layer, activate, block.conv.weight, None, block.conv.bias, skip=1.0))
    if stop == len(model.blocks):
        found.take(model.gamma, model.beta, *_both(model.output))
        head = Head(Activate(model.gamma, model.beta, model.dropout, stop), *_both(model.output))
    width = model.input.weight.shape[0]
    layer = exchange_layer(model, first)
    return Stage(entry, tuple(blocks), head, found.of(model), model.initial, width, layer)


def _both(linear: Linear) -> tuple[nn.Parameter, nn.Parameter | None]:
    return linear.weight, linear.bias
