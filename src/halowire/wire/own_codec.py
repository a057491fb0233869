"""Codecs that users write: three methods on rows are enough; the rest, and a trial of the codec, are done here."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.kernels import Csr, keys_of, uniform_bits
from halowire.wire.codec import Source, Uniform, refuse_cut_off
from halowire.wire.transport import Transport

WIDTHS = (1, 7, 64)
"""Numbers of columns of the rows on which a codec is tried."""
STREAM = 12345
"""Stream of the random numbers of the trial."""


@dataclass(frozen=True, eq=False)
class Draws:
    """The random numbers of ``m`` rows of one message: functions of (seed, epoch, layer, direction, node, column).

    They are the same in every run and with any number of workers; the numbers of torch's own generator are not.

    Example:
        >>> kept = draws.uniform(rows.shape[1]) < share  # inside encode_rows
    """

    stream: int
    ids: Tensor

    def uniform(self, columns: int) -> Tensor:
        """Uniform random numbers ``0 <= u < 1``, float32 ``[m, columns]``."""
        bits = uniform_bits(keys_of(self.stream, self.ids), columns)
        # float32 holds at most 24 bits; with more, a number could be rounded up to 1.
        return (bits >> 8).float() * 2.0**-24


class RowCodec(Uniform):
    """A codec that a user writes: the bytes of a row, rows to bytes, and bytes to rows.

    A row's bytes may depend on its values, its columns and its draws, and on nothing else: not on the rows beside it,
    not on the worker, not on earlier messages. `halowire.distribute` and `halowire.fit` take an instance as ``codec``,
    try it on some rows, and refuse it if it breaks this rule.

    Example:
        >>> class Half(halowire.RowCodec):
        ...     def row_bytes(self, columns):
        ...         return 2 * columns
        ...     def encode_rows(self, rows, draws):
        ...         return rows.bfloat16().view(torch.uint8)
        ...     def decode_rows(self, data, columns):
        ...         return data.view(torch.bfloat16).float()
        >>> halowire.fit(model, data, workers=2, codec=Half())
    """

    @property
    def wire_name(self) -> str:
        """The same for all codecs of users: `agree_on_codec` compares what they do."""
        return "a codec of one's own"

    @abstractmethod
    def row_bytes(self, columns: int) -> int:
        """Bytes of one row of ``columns`` values on the wire, at least 1."""

    @abstractmethod
    def encode_rows(self, rows: Tensor, draws: Draws) -> Tensor:
        """Turn float32 ``rows`` ``[m, k]`` into uint8 ``[m, row_bytes(k)]``."""

    @abstractmethod
    def decode_rows(self, data: Tensor, columns: int) -> Tensor:
        """Turn uint8 ``data`` ``[m, row_bytes(columns)]`` into float32 ``[m, columns]``."""

    def encode(self, rows: Tensor, source: Source, out: Tensor) -> None:
        """Encode every row that travels, on the CPU once, and write it to all its places in the message."""
        rows = rows if source.columns is None else rows.index_select(1, source.columns)
        if source.index is None:
            self.write(rows, Draws(source.stream, source.ids), None, out)
        elif rows.device.type != "cpu":  # to find the rows that go to several peers, the host would wait
            self.write(rows[source.index], Draws(source.stream, source.ids[source.index]), None, out)
        else:
            chosen, places = torch.unique(source.index, return_inverse=True)
            self.write(rows[chosen], Draws(source.stream, source.ids[chosen]), places, out)

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The rows in ``data``, float32 ``[m, columns]``."""
        width = self.row_bytes(columns)
        refuse_cut_off(data, width)
        rows = self.decode_rows(data.view(-1, width), columns)
        self._refuse_other(rows, "decode_rows", torch.float32, data.numel() // width, columns)
        return rows

    def aggregate(self, matrix: Csr, data: Tensor, columns: int, out: Tensor) -> None:
        """Decode, then multiply."""
        matrix.matmul(self.decode(data, columns).contiguous(), out=out, accumulate=True)

    def write(self, rows: Tensor, draws: Draws, places: Tensor | None, out: Tensor) -> None:
        """Encode ``rows`` ``[m, k]``, and write row ``places[i]`` to place ``i`` of ``out``; None: row ``i``."""
        width = self.row_bytes(rows.shape[1])
        packed = self.encode_rows(rows, draws)
        self._refuse_other(packed, "encode_rows", torch.uint8, rows.shape[0], width)
        out.view(-1, width).copy_(packed if places is None else packed[places])

    def _refuse_other(self, found: Tensor, method: str, kind: torch.dtype, rows: int, columns: int) -> None:
        if isinstance(found, Tensor) and found.dtype == kind and found.shape == (rows, columns):
            return
        name = type(self).__name__
        gives = f"{found.dtype} {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"{method} of codec {name} gives {gives}, expected {kind} [{rows}, {columns}]")


def check_codec(codec: RowCodec) -> bytes:
    """Try ``codec`` on rows of several widths, and refuse it if it breaks a rule; returns a digest of the bytes.

    The rules: a row takes as many bytes as ``row_bytes`` says; the same row and draws give the same bytes, whatever
    rows stand beside it; decoded rows are finite; the given rows do not change; torch's generator is not used.
    """
    if not isinstance(codec, RowCodec):
        raise InputError(f"the codec is a {type(codec).__name__}; expected an instance of halowire.RowCodec")
    state = torch.get_rng_state()
    with torch.no_grad():
        seen = b"".join(_try(codec, columns) for columns in WIDTHS)
    if not torch.equal(state, torch.get_rng_state()):
        raise InputError(f"codec {type(codec).__name__} draws from torch's generator; use draws.uniform(columns)")
    return hashlib.blake2b(seen, digest_size=6).digest()


def agree_on_codec(codec: RowCodec, transport: Transport) -> None:
    """Check ``codec`` on every worker, and check that it gives the same bytes on all of them."""
    failure = None
    own = 0
    try:
        own = 1 + int.from_bytes(check_codec(codec), "little")
    except InputError as error:
        failure = error
    found = torch.zeros(transport.size, dtype=torch.int64)
    found[transport.rank] = own
    transport.all_reduce(found, "check of the codec", SETUP)
    if failure is not None:
        raise failure
    if not found.all():
        raise InputError("another worker refused the codec; its message says why")
    if not (found == found[0]).all():
        raise InputError(
            f"codec {type(codec).__name__} gives other bytes on some workers than on rank 0; make it alike on all"
        )


def _try(codec: RowCodec, columns: int) -> bytes:
    name, width = type(codec).__name__, codec.row_bytes(columns)
    if not isinstance(width, int) or width < 1:
        raise InputError(f"row_bytes({columns}) of codec {name} is {width!r}; expected a whole number of at least 1")
    rows, ids = _rows(columns), torch.arange(100, 108)
    given = rows.clone()
    packed = _encode(codec, rows, ids)
    if not torch.equal(rows, given):
        raise InputError(f"encode_rows of codec {name} changes the rows it is given; work on a copy")
    if not torch.equal(packed, _encode(codec, rows, ids)):
        raise InputError(
            f"codec {name} gives other bytes for the same rows the second time; draw with draws.uniform(columns), and "
            "keep nothing between messages"
        )
    back = codec.decode(packed, columns)
    if not back.isfinite().all():
        raise InputError(f"codec {name} decodes finite rows to NaN or infinity; guard zero, constant and large rows")
    alone = [_encode(codec, rows[i : i + 1], ids[i : i + 1]) for i in reversed(range(len(rows)))]
    apart = [codec.decode(data, columns) for data in alone]
    if not torch.equal(torch.cat(alone[::-1]), packed) or not torch.equal(torch.cat(apart[::-1]), back):
        raise InputError(f"codec {name} codes a row otherwise when other rows stand beside it; treat every row alone")
    codec.decode(_encode(codec, rows[:0], ids[:0]), columns)  # a worker may have nothing to send
    return bytes(packed.tolist()) + width.to_bytes(8, "little")


def _encode(codec: RowCodec, rows: Tensor, ids: Tensor) -> Tensor:
    packed = torch.empty(len(rows) * codec.row_bytes(rows.shape[1]), dtype=torch.uint8)
    codec.write(rows, Draws(STREAM, ids), None, packed)
    return packed


def _rows(columns: int) -> Tensor:
    """float32 ``[8, k]``: ordinary rows, and rows that break a careless codec: zero, constant, tiny and huge ones."""
    rows = torch.randn(8, columns, generator=torch.Generator().manual_seed(columns))
    rows[4] = 0.0
    rows[5] = 2.5
    rows[6] *= 1e-20
    rows[7] *= 1e20
    return rows
