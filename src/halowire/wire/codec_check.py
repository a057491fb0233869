"""The trial of a user's codec: what would break repeatability or the count of bytes is refused before training."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.wire.own_codec import Draws, RowCodec
from halowire.wire.transport import Transport

WIDTHS = (1, 7, 64)
STREAM = 12345


def check_codec(codec: RowCodec) -> bytes:
    """Try ``codec`` on rows of several widths and refuse it where it breaks a promise; a digest of what it gave.

    The promises: as many bytes as ``row_bytes`` says, the same bytes for the same row and draws whatever stands beside
    it, finite rows back, the rows it was given unchanged, torch's generator untouched.
    """
    if not isinstance(codec, RowCodec):
        raise InputError(f"the codec is a {type(codec).__name__}; expected an instance of halowire.wire.RowCodec")
    state = torch.get_rng_state()
    with torch.no_grad():
        seen = b"".join(_try(codec, columns) for columns in WIDTHS)
    if not torch.equal(state, torch.get_rng_state()):
        raise InputError(f"codec {type(codec).__name__} draws from torch's generator; use draws.uniform(columns)")
    return hashlib.blake2b(seen, digest_size=6).digest()


def agree_on_codec(codec: RowCodec, transport: Transport) -> None:
    """Check ``codec`` on all workers, and that it gives the same bytes on all of them."""
    failure, own = None, 0
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
    """float32 ``[8, k]``: ordinary rows, and what breaks a careless codec: zeros, one value, tiny and huge ones."""
    rows = torch.randn(8, columns, generator=torch.Generator().manual_seed(columns))
    rows[4], rows[5] = 0.0, 2.5
    rows[6] *= 1e-20
    rows[7] *= 1e20
    return rows
