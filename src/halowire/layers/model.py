"""Models: the base class of all models of this library, and of the two kinds of models, `Stack` and `Deep`.

A model is one file and its registration: a class with ``@register("name")`` that says of which pieces it consists
(:meth:`Model.make_entry`, :meth:`Model.make_layer`, :meth:`Model.make_output`) and what it can do (the class
attributes of :class:`Model`). Schedules, recipes, stages, settings and checkpoints need to know nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import nn

from halowire.errors import InputError
from halowire.layers.activation import Activation
from halowire.layers.aggregation import Aggregation
from halowire.layers.entry import Entry, Projection
from halowire.layers.layer import Layer, Output
from halowire.partitioning import Shard
from halowire.wire import HaloExchange

NORMS = ("auto", "layer", "none")


@dataclass(frozen=True)
class Shape:
    """The sizes of a model: ``in -> hidden -> ... -> hidden -> out`` through ``layers`` graph layers.

    ``narrow``: a layer that narrows its rows multiplies them before they travel, so that narrower ones travel.
    """

    in_channels: int
    hidden_channels: int
    out_channels: int
    num_layers: int = 3
    dropout: float = 0.5
    norm: str = "auto"
    residual: float = 0.0
    heads: int = 1
    narrow: bool = True

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise InputError(f"norm {self.norm!r} is unknown; use one of {', '.join(NORMS)}")
        if self.num_layers < 1 or self.hidden_channels < 1:
            raise InputError(
                f"a model of {self.num_layers} layers, {self.hidden_channels} wide, cannot be; both must be at least 1"
            )
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is {self.dropout}; it must lie in 0 <= p < 1")


class Model(nn.Module, ABC):
    """A model of this library: its parameters, and the pieces that a schedule runs.

    Attributes:
        aggregates_input: the first layer reads raw features over edges, and is the first block; otherwise the first
            block follows the entry.
        sums_input: the first layer is a sum of raw features, so that features may be sent in every epoch.
        initial: every layer reads the initial rows, which the entry makes, beside its own rows.
        takes_residual, takes_heads: whether the settings ``residual`` and ``heads`` have a meaning.
        can_split: whether the model runs in stages and chunks, where a row does not see all its edges at once.
        can_sample: whether a row may go without some of its edges, the others being scaled, as sums allow.
        default_norm: what ``norm="auto"`` means.
        blocks: the parameters of the blocks, which are distributed over the stages of a pipeline.
    """

    aggregates_input: ClassVar[bool] = True
    sums_input: ClassVar[bool] = False
    initial: ClassVar[bool] = False
    takes_residual: ClassVar[bool] = False
    takes_heads: ClassVar[bool] = False
    can_split: ClassVar[bool] = True
    can_sample: ClassVar[bool] = True
    default_norm: ClassVar[str] = "layer"
    blocks: nn.ModuleList

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        """Draw the weights from ``seed`` alone."""
        super().__init__()
        self.shape = shape
        self.normed = (self.default_norm if shape.norm == "auto" else shape.norm) == "layer"
        self.build(torch.Generator().manual_seed(seed))

    @abstractmethod
    def build(self, seeds: torch.Generator) -> None:
        """Make all parameters; ``self.blocks[l]`` gets those of block ``l``."""

    @staticmethod
    @abstractmethod
    def aggregation(shard: Shard, exchange: HaloExchange) -> Aggregation:
        """The edges of ``shard``, made ready for the aggregation of this model's layers."""

    @abstractmethod
    def make_entry(self) -> Entry:
        """The entry, which turns features into the first hidden rows."""

    @abstractmethod
    def make_layer(self, block: int, undropped: bool) -> Layer:
        """The layer of block ``block``; ``undropped``: rows travel before dropout where that is possible."""

    def make_output(self) -> Output | None:
        """The output, which turns the last hidden rows into logits; None where the last layer does so."""
        return None

    @property
    def hidden_width(self) -> int:
        """Columns of the rows between blocks, which travel from stage to stage, and of the initial rows."""
        return self.shape.hidden_channels

    @classmethod
    @abstractmethod
    def sent_widths(cls, shape: Shape) -> list[int]:
        """Columns of the rows that travel between parts, in layers 1, 2, ..."""

    @classmethod
    def layer_number(cls, block: int) -> int:
        """The number of a block's exchange; an entry that aggregates features is block 0 and has no exchange."""
        return block if cls.aggregates_input else block + 1

    def norm_parameters(self, channels: int) -> tuple[nn.Parameter | None, nn.Parameter | None]:
        """Gamma and beta of a LayerNorm; None where this model has no LayerNorm."""
        if not self.normed:
            return None, None
        return nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))


MODELS: dict[str, type[Model]] = {}
"""All models by name."""
AnyModel = TypeVar("AnyModel", bound=type[Model])


def register(name: str) -> Callable[[AnyModel], AnyModel]:
    """Make a model known by ``name`` to the command line, the settings and the checkpoints."""

    def add(kind: AnyModel) -> AnyModel:
        MODELS[name] = kind
        return kind

    return add


class Linear(nn.Module):
    """The parameters of ``x W^T [+ x W_self^T] + b``; weights start from Glorot's distribution, the bias from zero."""

    def __init__(
        self, in_channels: int, out_channels: int, seeds: torch.Generator, bias: bool = True, self_map: bool = False
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        self.weight_self = nn.Parameter(torch.empty(out_channels, in_channels)) if self_map else None
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        for weight in (self.weight, self.weight_self):
            if weight is not None:
                nn.init.xavier_uniform_(weight, generator=seeds)


class Block(nn.Module):
    """The parameters of one layer, ``conv``, and of a LayerNorm beside it, ``gamma`` and ``beta``."""

    def __init__(self, conv: nn.Module, norm: Sequence[nn.Parameter | None] = (None, None)) -> None:
        super().__init__()
        self.conv = conv
        self.gamma = norm[0]
        self.beta = norm[1]


class Stack(Model):
    """Layers of one kind, ``in -> hidden -> ... -> out``, the first of which reads the features.

    After every block but the last come LayerNorm (optional), ReLU and dropout. The next layer runs them, on the rows
    that it sends, so rows between blocks are not activated yet.
    """

    @property
    def heads(self) -> int:
        """Number of attention heads, where the model has attention."""
        return self.shape.heads

    def build(self, seeds: torch.Generator) -> None:
        """Make one block for every layer."""
        widths, last = _widths(self.shape), self.shape.num_layers - 1
        self.blocks = nn.ModuleList()
        for number in range(last + 1):
            conv = self.new_conv(widths[number], widths[number + 1], number == last, seeds)
            norm = (None, None) if number == last else self.norm_parameters(widths[number + 1])
            self.blocks.append(Block(conv, norm))

    @abstractmethod
    def new_conv(self, in_channels: int, out_channels: int, last: bool, seeds: torch.Generator) -> nn.Module:
        """The parameters of a layer."""

    @abstractmethod
    def entry_of(self, conv: nn.Module) -> Entry:
        """The first layer, on features."""

    @abstractmethod
    def layer_of(self, conv: nn.Module, number: int, activation: Activation, undropped: bool) -> Layer:
        """A later layer, on hidden rows, with the activation before it."""

    def make_entry(self) -> Entry:
        """The first layer."""
        return self.entry_of(self._block(0).conv)

    def make_layer(self, block: int, undropped: bool) -> Layer:
        """The layer of ``block``, with the activation that follows the block before."""
        before = self._block(block - 1)
        activation = Activation(before.gamma, before.beta, self.shape.dropout, block - 1)
        return self.layer_of(self._block(block).conv, block, activation, undropped)

    @classmethod
    def sent_widths(cls, shape: Shape) -> list[int]:
        """``min(in, out)`` of every layer, or ``in``; ``out`` of the last layer counts all its heads."""
        widths = _widths(shape)
        if not shape.narrow:
            return widths[1:-1]
        widths[-1] *= shape.heads if cls.takes_heads else 1
        return [min(widths[layer], widths[layer + 1]) for layer in range(1, shape.num_layers)]

    def _block(self, number: int) -> Block:
        block = self.blocks[number]
        assert isinstance(block, Block)
        return block


def _widths(shape: Shape) -> list[int]:
    """Columns of the input, of every hidden block's output, and of the last block's output."""
    return [shape.in_channels, *[shape.hidden_channels] * (shape.num_layers - 1), shape.out_channels]


class Deep(Model):
    """``entry`` (features to hidden rows), blocks of equal width, ``output`` (hidden rows to logits).

    The activation of a block, ``f(u) = dropout(relu(layer_norm(u)))`` with the norm optional, stands before its
    aggregation; a last one stands before the output.
    """

    aggregates_input = False
    bias: ClassVar[bool] = True

    def build(self, seeds: torch.Generator) -> None:
        """Make the weights of the input, of every block, and of the output."""
        shape = self.shape
        width = shape.hidden_channels
        self.input = Linear(shape.in_channels, width, seeds)
        self.blocks = nn.ModuleList(
            Block(Linear(width, width, seeds, self.bias), self.norm_parameters(width)) for _ in range(shape.num_layers)
        )
        self.output = Linear(width, shape.out_channels, seeds)
        norm = self.norm_parameters(width)
        self.gamma = norm[0]
        self.beta = norm[1]

    def make_entry(self) -> Entry:
        """``u_0 = x W_in^T + b``."""
        return Projection(self.input.weight, self.input.bias)

    def make_output(self) -> Output:
        """``f(u) W_out^T + b``."""
        return Output(self.activation(len(self.blocks)), self.output.weight, self.output.bias)

    @classmethod
    def sent_widths(cls, shape: Shape) -> list[int]:
        """The hidden width, for every layer."""
        return [shape.hidden_channels] * shape.num_layers

    def conv(self, block: int) -> Linear:
        """The parameters of the weights of block ``block``."""
        own = self.blocks[block]
        assert isinstance(own, Block) and isinstance(own.conv, Linear)
        return own.conv

    def activation(self, block: int) -> Activation:
        """The activation before block ``block``, or before the output."""
        owner = self if block == len(self.blocks) else self.blocks[block]
        assert isinstance(owner, Deep | Block)
        return Activation(owner.gamma, owner.beta, self.shape.dropout, block)
