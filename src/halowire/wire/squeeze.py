"""Values that are sent once, squeezed without loss: their bytes are grouped by place, then deflated with zlib.

    sent to a peer    the shorter of the bytes of its values and their deflated form; their length tells which

The first bytes of all values stand together, then the second ones, and so on: neighbours are alike there, as the
exponents of floats or the zeros above small numbers, and deflate finds that.
"""

from __future__ import annotations

import zlib
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from halowire.errors import MessageError
from halowire.wire.arrived import REMEDY
from halowire.wire.transport import Sizes, Transport

LEVEL = 1
"""Of zlib's 1 to 9: the fastest; the others take several times as long for a tenth of the bytes."""


def swap_squeezed(values: Tensor, sent: Sizes, received: Sizes, transport: Transport, where: str) -> Tensor:
    """What `Transport.swap` of the ``values`` ``[n, ...]`` returns, in fewer bytes; all workers call this together."""
    parts = [squeeze(part) for part in torch.split(values.cpu(), list(sent))]
    sizes = [len(part) for part in parts]
    arriving = transport.swap_counts(sizes, where)
    data = torch.from_numpy(np.frombuffer(b"".join(parts), dtype=np.uint8).copy())
    arrived = transport.swap(data, sizes, arriving, where).numpy()
    stops = list(accumulate(arriving, initial=0))
    found = torch.empty(sum(received), *values.shape[1:], dtype=values.dtype)
    for peer, part in enumerate(torch.split(found, list(received))):
        if not fill(part, arrived[stops[peer] : stops[peer + 1]].tobytes()):
            raise MessageError(
                f"at {where}, {arriving[peer]:,} bytes from rank {transport.members[peer]} are not the deflated form "
                f"of {part.numel():,} values of {part.element_size()} bytes; {REMEDY}"
            )
    return found.to(values.device)


def squeeze(values: Tensor) -> bytes:
    """The bytes for ``values`` ``[m, ...]`` on the host: deflated where that is shorter."""
    grouped = _places(values).numpy().T.tobytes()
    return min(grouped, zlib.compress(grouped, LEVEL), key=len)


def fill(values: Tensor, data: bytes) -> bool:
    """Fill ``values``, contiguous, with what :func:`squeeze` made of others; returns whether the bytes fit them."""
    places = _places(values)
    size = places.numel()
    if len(data) < size:
        inflate = zlib.decompressobj()
        try:
            # A byte more than expected is asked for, so that a longer stream is seen without being unpacked.
            data = inflate.decompress(data, size + 1)
        except zlib.error:
            return False
        if not inflate.eof or inflate.unused_data:
            return False
    if len(data) != size:
        return False
    grouped = np.frombuffer(data, dtype=np.uint8).reshape(places.shape[1], places.shape[0])
    places.copy_(torch.from_numpy(grouped.copy()).t())
    return True


def gaps(columns: Tensor, lengths: Tensor) -> Tensor:
    """The ``columns`` of the stored values of rows of so many values, each as its distance from the one before it.

    The first of a row stands for itself; gaps are smaller numbers than columns, and more of them are alike.
    """
    before = columns.roll(1)
    before[_first_of_rows(lengths)] = 0
    return columns - before


def columns_of(found: Tensor, lengths: Tensor) -> Tensor:
    """The columns, int64, whose :func:`gaps` were ``found``; gaps that were changed on their way give any number."""
    total = found.long().cumsum(0)
    first = _first_of_rows(lengths)
    base = (total - found.long())[first]
    return total - torch.repeat_interleave(base, lengths[lengths > 0])


def _first_of_rows(lengths: Tensor) -> Tensor:
    """The places of the first stored value of every row that has any."""
    return (lengths.cumsum(0) - lengths)[lengths > 0].long()


def _places(values: Tensor) -> Tensor:
    """A view of the bytes of ``values``: a row for every value, a column for every place in it."""
    return values.contiguous().view(-1).view(torch.uint8).view(-1, values.element_size())
