"""The terms of one message, which the policy sets: what both ends know of it without a word on the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from halowire.kernels import stream_key
from halowire.wire.codec import Codec, Full, Uniform
from halowire.wire.memory import Delta
from halowire.wire.policy import BACKWARD, EXACT, FORWARD, Policy, Rate, codec_of

Codecs = Callable[[Policy, Rate, str], tuple[Codec, Codec]]
"""How a worker encodes its own rows and decodes those of its peers, at a rate and in a direction."""


def alike(policy: Policy, rate: Rate, direction: str) -> tuple[Codec, Codec]:
    """Every row is coded alike, with the policy's own codec or the one for the bits of ``rate``."""
    codec = policy.codec or codec_of(rate)
    return codec, codec


@dataclass(frozen=True)
class Draw:
    """Where a message belongs, and what makes its random numbers its own.

    Attributes:
        layer: the layer whose input travels.
        direction: ``forward`` or ``backward``.
        columns: the key of the columns that travel.
        bits: the stream of the rounding of their values.
    """

    layer: int
    direction: str
    columns: int
    bits: int

    @staticmethod
    def halo(layer: int, direction: str, rank: int) -> Draw:
        """A halo message; backward, every sender ``rank`` has a stream of its own, as several send the same node."""
        return Draw(layer, direction, layer, 200 if direction == FORWARD else 1000 + rank)

    @staticmethod
    def chunk(layer: int, direction: str) -> Draw:
        """The halo message of chunks in work."""
        return Draw(layer, direction, layer, 500 if direction == FORWARD else 1500)

    @staticmethod
    def stage(layer: int, direction: str, kind: int) -> Draw:
        """A stage link's message; its columns are drawn from negative keys, so that they are not those of a halo."""
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
        decoder: how it decodes those of its peers.
        columns: the columns that travel; None: all of them.
        factor: what rows are multiplied by on arrival.
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
        """float32 and all columns: for set-up and evaluation."""
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
    ) -> Terms:
        """The terms that ``policy`` sets for a training message; backward, the columns are those of forward.

        ``share``: that of the rows that travel. ``delta``: rows may travel as changes, where the policy has a decay.
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
