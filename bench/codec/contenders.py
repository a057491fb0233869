"""What the codec benchmark times: every way from float32 rows to bytes, back, and into a sum."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr, Packing, aggregate, aggregate_packed, empty, pack_rows, stream_key, unpack_rows

CODES = {
    "1 bit minmax": Packing(1),
    "1 bit levels": Packing(1, "levels"),
    "1 bit clipped": Packing(1, "clipped"),
    "2 bits": Packing(2),
    "4 bits": Packing(4),
    "8 bits": Packing(8),
    "bf16": Packing(16),
}


@dataclass(frozen=True)
class Contender:
    """Something to time, and the float32 bytes that it takes in or gives out."""

    task: str
    code: str
    run: Callable[[], object]
    nbytes: int


def contenders(rows: int, columns: int, degree: int) -> list[Contender]:
    """All of them on the same ``rows x columns`` values; sums run over ``degree`` random rows for half as many rows."""
    generator = torch.Generator().manual_seed(0)
    x = empty(rows, columns)
    x.copy_(torch.randn(rows, columns, generator=generator))
    copy, ids, stream = empty(rows, columns).zero_(), torch.arange(rows), stream_key(0, 1, 2)
    edges = rows // 2 * degree
    sources = torch.randint(rows, (edges,), generator=generator)
    targets = torch.randint(rows // 2, (edges,), generator=generator)
    halo = Csr.from_edges(targets, sources, rows // 2, rows, torch.rand(edges, generator=generator))
    total, size = empty(rows // 2, columns).zero_(), x.numel() * 4
    plain = ctypes.memmove, copy.data_ptr(), x.data_ptr(), x.untyped_storage().nbytes()
    found = [
        Contender("copy", "fp32", lambda: plain[0](*plain[1:]), size),
        Contender(
            "sum", "fp32", lambda: aggregate(halo.indptr, halo.indices, halo.weight, x, total), edges * columns * 4
        ),
    ]
    for name, packing in CODES.items():
        found += packed(name, packing, x, copy, ids, stream, halo, total)
    found += as_sent(x, ids, stream, generator)
    half = torch.randperm(columns, generator=generator)[: columns // 2].sort().values.int()
    data = torch.zeros(rows, CODES["1 bit minmax"].row_bytes(half.numel()), dtype=torch.uint8)
    subset = "1 bit minmax, half of the columns"
    found.append(Contender("encode", subset, lambda: pack_rows(x, Packing(1), stream, ids, data, half), size // 2))
    return found


def as_sent(x: Tensor, ids: Tensor, stream: int, generator: torch.Generator) -> list[Contender]:
    """One bit as the exchange uses it: each row to one or two places of the message, gradients back into their rows."""
    rows, k = x.shape
    packing, places = Packing(1), torch.randperm(rows + rows // 2, generator=generator)
    owners = torch.cat([torch.arange(rows), torch.arange(rows // 2)])
    inverse = Csr.from_edges(owners, places, rows, places.numel())
    data, back = torch.zeros(places.numel(), packing.row_bytes(k), dtype=torch.uint8), empty(rows, k).zero_()
    targets = inverse.indptr, inverse.indices

    def encode() -> None:
        pack_rows(x, packing, stream, ids, data, None, targets)

    def add() -> None:
        aggregate_packed(*targets, None, data, packing, k, back, accumulate=True)

    return [
        Contender("encode", "1 bit minmax, to 1.5 places each", encode, x.numel() * 4),
        Contender("add back", "1 bit minmax, from 1.5 places each", add, places.numel() * k * 4),
    ]


def packed(
    name: str, packing: Packing, x: Tensor, copy: Tensor, ids: Tensor, stream: int, halo: Csr, total: Tensor
) -> list[Contender]:
    """Encoding, decoding and summing with one code; the sum is compared with that of the decoded rows first."""
    rows, k = x.shape
    data = torch.zeros(rows, packing.row_bytes(k), dtype=torch.uint8)
    pack_rows(x, packing, stream, ids, data)
    matrix = halo.indptr, halo.indices, halo.weight
    expected = aggregate(*matrix, unpack_rows(data, packing, k))
    error = float((aggregate_packed(*matrix, data, packing, k) - expected).abs().max() / expected.abs().max())
    if error > 1e-4:
        raise SystemExit(f"{name}: the sums differ by {error:.1e} of the largest: do not trust these timings")
    size = x.numel() * 4
    return [
        Contender("encode", name, lambda: pack_rows(x, packing, stream, ids, data), size),
        Contender("decode", name, lambda: unpack_rows(data, packing, k, copy), size),
        Contender("sum", name, lambda: aggregate_packed(*matrix, data, packing, k, total), halo.nnz * k * 4),
    ]
