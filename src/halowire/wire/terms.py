"""The terms of one message: how the policy makes it travel. Both ends know them without sending them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import sent_over, stream_key
from halowire.wire.codec import Codec, Full, Uniform
from halowire.wire.memory import Delta
from halowire.wire.policy import BACKWARD, EXACT, FORWARD, Policy, Rate, codec_of

HOST = torch.device("cpu")
Codecs = Callable[[Policy, Rate, str], tuple[Codec, Codec]]
"""A function that gives the codec of a worker's own rows and the codec of its peers' rows, at a rate and direction."""


def alike(policy: Policy, rate: Rate, direction: str) -> tuple[Codec, Codec]:
    """One codec for all rows of both ends: the policy's own, or the one for the bits of ``rate``."""
    codec = policy.codec or codec_of(rate)
    return codec, codec


@dataclass(frozen=True)
class Draw:
    """The layer and direction of a message, and the keys of its random numbers.

    Attributes:
        layer: the layer whose input travels.
        direction: ``forward`` or ``backward``.
        columns: the key that draws the columns that travel.
        bits: the stream of the random numbers that round the values.
    """

    layer: int
    direction: str
    columns: int
    bits: int

    @staticmethod
    def halo(layer: int, direction: str, rank: int) -> Draw:
        """The draw of a halo message; backward, several ranks send gradients of a node, so each has its own stream."""
        return Draw(layer, direction, layer, 200 if direction == FORWARD else 1000 + rank)

    @staticmethod
    def chunk(layer: int, direction: str) -> Draw:
        """The draw of a halo message of the chunks in work."""
        return Draw(layer, direction, layer, 500 if direction == FORWARD else 1500)

    @staticmethod
    def stage(layer: int, direction: str, kind: int) -> Draw:
        """The draw of a stage link's message; negative keys draw its columns, so that they differ from a halo's."""
        return Draw(layer, direction, -1 - 2 * layer - kind, 300 + 2 * kind + (direction == BACKWARD))


@dataclass(frozen=True, eq=False)
class Terms:
    """How the rows of one message travel.

    Attributes:
        epoch: the training epoch; -1: the message is exact, for set-up or evaluation.
        layer: the layer whose input travels.
        direction: ``forward`` or ``backward``.
        width: columns of the rows.
        codec: how this worker encodes its own rows.
        decoder: how this worker decodes the rows of its peers.
        columns: the columns that travel; None: all of them.
        factor: the number by which rows are multiplied on arrival.
        stream: key of the random numbers of the message.
        delta: how rows travel as changes; None: they travel as they are.
    """

    epoch: int
    layer: int
    direction: str
    width: int
    codec: Codec
    decoder: Codec
    columns: Tensor | None = None
    factor: float = 1.0
    stream: int = 0
    delta: Delta | None = None

    @staticmethod
    def exact(layer: int, direction: str, width: int) -> Terms:
        """The terms of set-up and evaluation: float32 and all columns."""
        codec = codec_of(EXACT)
        return Terms(-1, layer, direction, width, codec, codec)

    @staticmethod
    def of(
        policy: Policy,
        draw: Draw,
        epoch: int,
        width: int,
        share: float = 1.0,
        delta: bool = False,
        code: Codecs = alike,
        device: torch.device = HOST,
    ) -> Terms:
        """The terms that ``policy`` sets for a training message; forward and backward send the same columns.

        ``share``: the share of the rows that travels. ``delta``: rows travel as changes where the policy has a decay.
        ``device``: where the rows are, and so their columns' numbers.
        """
        layer, direction = draw.layer, draw.direction
        columns = policy.columns(epoch, layer, width, draw.columns)
        changes = None
        if delta and direction == FORWARD and policy.decay is not None:
            changes = Delta(policy.decay, policy.gain)
        factor = 1.0 / share
        if columns is not None and policy.rescale and changes is None:
            factor *= width / columns.numel()
        both = code(policy, policy.rates(epoch, layer, direction), direction)
        stream = stream_key(policy.seed, epoch, layer, draw.bits)
        columns = None if columns is None else sent_over(columns, device)
        return Terms(epoch, layer, direction, width, *both, columns, factor, stream, changes)

    @property
    def sent_columns(self) -> int:
        """How many columns travel."""
        return self.width if self.columns is None else self.columns.numel()

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on the wire, where all rows are coded alike."""
        assert isinstance(self.codec, Uniform), "rows of different grades take different bytes"
        return self.codec.row_bytes(self.sent_columns)

    @property
    def plain(self) -> bool:
        """Whether the rows travel as they lie in memory."""
        return isinstance(self.codec, Full) and self.columns is None and self.delta is None
