"""The header of a message: 16 bytes that say what the bytes behind them are, checked before anything is decoded.

Every message between two workers has one, also those of `Transport.swap`. Sums over all workers and copies of rank 0's
values, which torch makes in steps of its own, have none. A header travels in front of the rows for one peer, as a send
of its own on the same connection, little endian:

====== ==== ======== ==============================================================================================
offset size field    value
====== ==== ======== ==============================================================================================
0      4    run      the number of the run, the same on all its workers
4      2    epoch    the epoch in which the message was made, modulo 65535; 65535: set-up or evaluation
6      1    layer    the layer whose input travels, modulo 256
7      1    kind     bit 7: backward; bit 6: between stages; bit 5: rows travel as changes; bits 0 to 4: the codec
8      4    rows     the number of rows, modulo 2^32
12     4    length   the bytes of the rows, modulo 2^32
====== ==== ======== ==============================================================================================

The codec is a place in :data:`CODECS`. The rows lie in memory as one matrix for all peers, and a stage sends them
straight from the matrix that computed them: a header between them would cost a copy, a send of 16 bytes costs less.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from halowire.errors import MessageError

LAYOUT = struct.Struct("<IHBBII")
HEADER_BYTES = LAYOUT.size
"""Bytes that every message to a peer takes beside its rows."""
NO_EPOCH = 0xFFFF
BACK, BETWEEN_STAGES, AS_CHANGES, CODEC = 0x80, 0x40, 0x20, 0x1F
CODECS = (
    "float32", "bf16", "8-bit minmax", "4-bit minmax", "2-bit minmax", "1-bit minmax",
    "4-bit levels", "2-bit levels", "1-bit levels", "1-bit clipped",
    "8-bit and more minmax", "4-bit and more minmax", "2-bit and more minmax", "1-bit and more minmax",
    "8-bit and more levels", "4-bit and more levels", "2-bit and more levels", "1-bit and more levels",
    "8-bit and more clipped", "4-bit and more clipped", "2-bit and more clipped", "1-bit and more clipped",
    "a codec of one's own", "plain values",
)  # fmt: skip
"""The names of all codecs (`Codec.wire_name`); a codec's place is its number on the wire, so new ones go to the end."""

PLAIN = CODECS[-1]
"""What is sent as it lies in memory, see `Transport.swap`: not coded rows, but lists, counts and values of any type."""
RING = 8


class Header(NamedTuple):
    """What a message says of itself; every field as it stands on the wire."""

    run: int
    epoch: int
    layer: int
    kind: int
    rows: int
    length: int

    @staticmethod
    def of(run: int, epoch: int, layer: int, kind: int, rows: int, length: int) -> Header:
        """The header of a message of ``epoch`` (-1: set-up or evaluation); numbers too large for a field wrap round."""
        when = NO_EPOCH if epoch < 0 else epoch % NO_EPOCH
        return Header(run, when, layer % 256, kind, rows % 2**32, length % 2**32)

    @staticmethod
    def read(data: bytes | memoryview) -> Header:
        """The header in ``data``, which may hold anything; too few or too many bytes are an error."""
        if len(data) != HEADER_BYTES:
            raise MessageError(f"a header has {HEADER_BYTES} bytes, but {len(data)} came; the message was damaged")
        return Header(*LAYOUT.unpack(data))

    @property
    def when(self) -> str:
        """The epoch, in words."""
        return "set-up or evaluation" if self.epoch == NO_EPOCH else f"epoch {self.epoch}"

    @property
    def way(self) -> str:
        """The layer, the direction, and what the message connects, in words."""
        direction = "backward" if self.kind & BACK else "forward"
        between = "stages" if self.kind & BETWEEN_STAGES else "parts"
        return f"layer {self.layer}, {direction}, between {between}"

    @property
    def codec(self) -> str:
        """The codec, in words."""
        number = self.kind & CODEC
        name = CODECS[number] if number < len(CODECS) else f"an unknown codec (number {number})"
        return f"{name}, as changes" if self.kind & AS_CHANGES else name


def kind_of(codec: str, backward: bool, between_stages: bool, as_changes: bool) -> int:
    """The byte ``kind`` of a header."""
    return CODECS.index(codec) | BACK * backward | BETWEEN_STAGES * between_stages | AS_CHANGES * as_changes


def headers_of(place: tuple[int, int, int, int], rows: Sequence[int], sizes: Sequence[int]) -> dict[int, Header]:
    """The header of the rows of every peer that sends or gets bytes; ``place``: run, epoch, layer and kind."""
    pairs = enumerate(zip(rows, sizes, strict=True))
    return {peer: Header.of(*place, count, size) for peer, (count, size) in pairs if size}


def with_headers(sizes: Sequence[int]) -> list[int]:
    """Bytes for every peer, with those of the headers, which messages without bytes do not have."""
    return [size + HEADER_BYTES * (size > 0) for size in sizes]


def refuse_other(expected: Header, came: Header, rank: int, where: str) -> None:
    """Raise unless the header that ``came`` from ``rank`` is the ``expected`` one; say what differs and what to do."""
    if came == expected:
        return
    remedy = "give all workers the same settings and versions, and start again"
    if came.run != expected.run:
        found = f"belongs to run {came.run}, expected run {expected.run}"
        remedy = "another run uses the same address and port: end it, or give this run another port"
    elif came.epoch != expected.epoch:
        found = f"is of {came.when}, expected {expected.when}"
        remedy = "the workers are out of step: start all of them again with --resume"
    elif came.way != expected.way:
        found = f"is for {came.way}, expected {expected.way}"
    elif came.codec != expected.codec:
        found = f"is coded in {came.codec}, expected {expected.codec}"
    elif came.rows != expected.rows:
        found = f"has {came.rows} rows, expected {expected.rows}"
        remedy = "give all workers shards of the same partition, and start again"
    else:
        found = f"has {came.length} bytes for its {came.rows} rows, expected {expected.length}"
    raise MessageError(f"at {where}, the message from rank {rank} {found}; {remedy}")


class Envelope:
    """The headers of one message: those that leave, room for those that arrive, and what the latter must say.

    The memory is on the host, also where rows are on a GPU, and serves one message after another.
    """

    def __init__(self, peers: int) -> None:
        room = torch.zeros(2, peers, HEADER_BYTES, dtype=torch.uint8)
        self._bytes = memoryview(room.numpy().data).cast("B")
        self.leaving = room[0].unbind()
        self.arriving = room[1].unbind()
        self.sent: Mapping[int, Header] = {}
        self.expected: Mapping[int, Header] = {}
        self.left_with = 0
        """Address of the send buffer with which the last headers left: when that is free, these are."""

    def seal(self) -> None:
        """Write the headers ``sent``."""
        for peer, header in self.sent.items():
            LAYOUT.pack_into(self._bytes, peer * HEADER_BYTES, *header)

    def check(self, expected: Mapping[int, Header], members: Sequence[int], where: str) -> None:
        """Raise unless the headers that arrived are those ``expected`` of the ``members``."""
        first = len(self.arriving)
        for peer, header in expected.items():
            came = Header(*LAYOUT.unpack_from(self._bytes, (first + peer) * HEADER_BYTES))
            if came != header:
                refuse_other(header, came, members[peer], where)

    def free(self) -> None:
        """The buffer with which the headers left is free, so that another message may leave from its address."""
        if self.left_with != self.leaving[0].data_ptr():  # headers that left from their own memory may be under way
            self.left_with = 0


class EnvelopeRing:
    """Envelopes for messages that follow one another.

    Where headers are checked when their memory is needed again, that is :data:`RING` messages later.
    """

    def __init__(self) -> None:
        self._made: deque[Envelope] = deque()

    def next(self, peers: int) -> Envelope:
        """The envelope that was used longest ago."""
        if len(self._made) < RING:
            self._made.append(Envelope(peers))
        else:
            self._made.rotate(-1)
        return self._made[-1]
