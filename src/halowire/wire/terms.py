"""The terms of one halo message: what both ends know of it without a word on the wire."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from halowire.kernels import Csr, stream_key
from halowire.partitioning import Shard
from halowire.wire.codec import Codec, Uniform, codec_of
from halowire.wire.graded import Graded
from halowire.wire.grades import halo_degree, sent_degree
from halowire.wire.pieces import Pieces
from halowire.wire.policy import Policy
from halowire.wire.rate import EXACT, FORWARD, Rate
from halowire.wire.subset import row_subset

# Streams of the random numbers on the wire: one for each direction, backward one for each sender as well.
FORWARD_STREAM, BACKWARD_STREAM = 200, 1000


@dataclass(frozen=True, eq=False)
class Lists:
    """Which rows travel in an epoch: of the send list (owned rows) and of the halo list, grouped by peer.

    ``index`` are the owned rows of the send list, ``targets`` ``[boundary, m]`` its inverse, ``places`` the halo rows
    (None: all of them), ``pieces`` what they leave in (None: as a whole).
    """

    index: Tensor
    targets: Csr
    places: Tensor | None
    send_counts: tuple[int, ...]
    recv_counts: tuple[int, ...]
    share: float
    pieces: Pieces | None = None

    def arrived(self, matrix: Csr) -> Csr:
        """The columns of ``matrix`` ``[r, h]`` whose rows travel, in the order of the message."""
        return matrix if self.places is None else matrix.select_columns(self.places)


@dataclass(frozen=True, eq=False)
class Terms:
    """Epoch, layer, direction and width of a message; how this worker encodes its own and decodes the peers'; its
    columns and rows, the factor on arrival, and whether its rows are changes."""

    epoch: int
    layer: int
    direction: str
    width: int
    codec: Codec
    decoder: Codec
    columns: Tensor | None
    lists: Lists
    factor: float
    stream: int
    delta: bool

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
    def pieces(self) -> Pieces | None:
        """The pieces in which it leaves; None where it leaves as a whole."""
        return self.lists.pieces if isinstance(self.codec, Uniform) else None

    @property
    def sizes(self) -> tuple[list[int], list[int]]:
        """Bytes sent to and received from every peer."""
        lists = self.lists
        counts = lists.send_counts, lists.recv_counts
        sent, received = counts if self.direction == FORWARD else counts[::-1]
        return self.codec.sizes(sent, self.sent_columns), self.decoder.sizes(received, self.sent_columns)


class TermsMaker:
    """Derives the terms of every message of one shard from the policy."""

    def __init__(self, shard: Shard, policy: Policy, in_pieces: bool = True) -> None:
        self._policy, self._rank = policy, shard.rank
        self._degrees = (sent_degree(shard), halo_degree(shard))
        self._graded: dict[tuple[int, str], tuple[Graded, Graded]] = {}
        self._send_ids, self._halo_ids = shard.ids[shard.send_index], shard.halo_ids
        self._boundary, self._send_index = shard.num_boundary, shard.send_index
        self._counts = (shard.send_counts, shard.recv_counts)
        pieces = None
        if in_pieces:
            pieces = Pieces.of(shard.send_index, *self._counts, shard.num_boundary, policy.piece_rows)
        self.all = Lists(shard.send_index, self._inverse(shard.send_index), None, *self._counts, 1.0, pieces)
        self._sampled: tuple[tuple[int, float], Lists] | None = None

    def exact(self, layer: int, direction: str, width: int) -> Terms:
        """float32, everything: for set-up and evaluation."""
        codec = codec_of(EXACT)
        return Terms(-1, layer, direction, width, codec, codec, None, self.all, 1.0, 0, False)

    def of(self, epoch: int, layer: int, direction: str, width: int, delta: bool = False) -> Terms:
        """The terms of a training message, whose rows may be coded as changes (``delta``).

        Backward, columns and rows are those of the forward message.
        """
        policy = self._policy
        forward = policy.rates(epoch, layer, FORWARD)
        rate = forward if direction == FORWARD else policy.rates(epoch, layer, direction)
        columns = policy.columns(epoch, layer, width)
        lists = self._lists(forward, epoch)
        factor = 1.0 / lists.share
        if columns is not None and policy.rescale:
            factor *= width / columns.numel()
        stream = FORWARD_STREAM if direction == FORWARD else BACKWARD_STREAM + self._rank
        key = stream_key(policy.seed, epoch, layer, stream)
        codecs = self._codecs(rate, direction)
        return Terms(epoch, layer, direction, width, *codecs, columns, lists, factor, key, delta)

    def _codecs(self, rate: Rate, direction: str) -> tuple[Codec, Codec]:
        """How this worker encodes, and how it decodes: of graded rows each end has its own list."""
        if self._policy.codec is not None or not rate.graded:
            codec = self._policy.codec or codec_of(rate)
            return codec, codec
        key = (rate.bits, rate.code)
        if key not in self._graded:
            owner = Graded(self._degrees[0], self._counts[0], rate, self._send_index, self._inverse)
            self._graded[key] = (owner, Graded(self._degrees[1], self._counts[1], rate))
        owner, receiver = self._graded[key]
        return (owner, receiver) if direction == FORWARD else (receiver, owner)

    def _lists(self, rate: Rate, epoch: int) -> Lists:
        if rate.rows == 1:
            return self.all
        if self._sampled is None or self._sampled[0] != (epoch, rate.rows):
            self._sampled = ((epoch, rate.rows), self._sample(rate.rows, epoch))
        return self._sampled[1]

    def _sample(self, share: float, epoch: int) -> Lists:
        seed = self._policy.seed
        kept, sent = row_subset(self._send_ids, self._counts[0], share, seed, epoch)
        places, received = row_subset(self._halo_ids, self._counts[1], share, seed, epoch)
        index = self._send_index[kept]
        return Lists(index, self._inverse(index), places, sent, received, share)

    def _inverse(self, index: Tensor) -> Csr:
        count = index.numel()
        places = index.new_empty(count).copy_(index.new_ones(count).cumsum(0) - 1)
        return Csr.from_edges(index, places, self._boundary, count)
