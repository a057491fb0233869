"""The calls by which kernels are compared: every kernel that runs on a GPU, with the bits and codes that runs use.

Inputs are made on the host, the same every time, so that a call gives the same numbers on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import (
    Csr,
    Drop,
    Packing,
    Scores,
    activate,
    activate_backward,
    aggregate_packed,
    attend,
    attend_sources,
    attend_targets,
    delta_step,
    pack_rows,
    stream_key,
    unpack_rows,
)

CPU = torch.device("cpu")
PACKINGS = [
    Packing(1),
    Packing(2),
    Packing(4),
    Packing(8),
    Packing(1, "clipped"),
    Packing(1, "levels"),
    Packing(2, "levels"),
    Packing(4, "levels"),
    Packing(16),
]
BITS = (1, 2, 4, 8, 16)
STREAM = stream_key(7, 3, 1, 200)
CLOSE = 1e-5
"""How far sums may be apart, of the largest value."""


Found = tuple[Tensor, ...]
"""What a call wrote."""


@dataclass(frozen=True)
class KernelCase:
    """One call of a kernel.

    Attributes:
        name: what is called.
        exact: whether all bits must be equal; else sums may differ within `CLOSE`.
        on: makes its inputs, calls the kernel on a device and returns what it wrote.
    """

    name: str
    exact: bool
    on: Callable[[torch.device], Found]

    def call(self) -> Found:
        """What the kernels of the CPU compute."""
        return self.on(CPU)


def difference(found: Found, wanted: Found, exact: bool) -> float:
    """The largest difference, of the largest value; with ``exact`` the share of bytes that differ."""
    worst = 0.0
    for first, second in zip(found, wanted, strict=True):
        a, b = first.cpu(), second.cpu()
        if exact:
            left, right = (value.contiguous().view(torch.uint8) for value in (a, b))
            worst = max(worst, float((left != right).float().mean()) if a.numel() else 0.0)
        elif a.numel():
            if not torch.equal(a.isfinite(), b.isfinite()):
                return torch.inf
            worst = max(worst, float((a - b).abs().max() / b.abs().max().clamp(min=1.0)))
    return worst


def kernel_cases(width: int = 128) -> list[KernelCase]:
    """All cases, with rows of ``width`` values."""
    found = []
    for packing in PACKINGS:
        name = "bf16" if packing.bits == 16 else f"{packing.bits}-bit {packing.code}"
        found.append(KernelCase(f"pack {name}", True, packs(packing, width)))
    for packing in (PACKINGS[0], PACKINGS[5], PACKINGS[3]):
        name = f"pack {packing.bits}-bit {packing.code}, some columns to several places"
        found.append(KernelCase(name, True, packs(packing, width, spread=True)))
    found += [KernelCase(f"unpack {bits} bits", True, unpacks(Packing(bits), width)) for bits in BITS]
    for bits in BITS:
        found.append(KernelCase(f"sums of {bits}-bit rows", False, sums(Packing(bits), width)))
        found.append(KernelCase(f"returned gradients of {bits} bits", False, sums(Packing(bits), width, returned=True)))
    found += [
        KernelCase("attention of 1 head, there and back", False, attends(1, width)),
        KernelCase("attention of 4 heads, there and back", False, attends(4, width // 4)),
        KernelCase("LayerNorm, ReLU, dropout, there and back", False, activates(width, norm=True)),
        KernelCase("ReLU, dropout, there and back", False, activates(width, norm=False)),
        KernelCase("delta update", True, steps(width, spread=False)),
        KernelCase("delta update of some columns", True, steps(width, spread=True)),
    ]
    return found


def odd_rows(rows: int, width: int) -> Tensor:
    """Rows of all kinds: usual, zero, constant, tiny, huge, negative, and with a NaN or an infinity."""
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(rows))
    x[1] = 0.0
    x[2] = 3.25
    x[3] *= 1e-41
    x[4] *= 1e38
    x[5, width // 2] = torch.nan
    x[6, 0] = torch.inf
    x[7] = -x[7].abs()
    x[8] = 3e38
    return x


def rows_on(device: torch.device, x: Tensor) -> Tensor:
    """``x`` on ``device``, with a gap between its rows."""
    rows, width = x.shape
    return torch.zeros(rows, width + 4, device=device)[:, :width].copy_(x)


def packs(packing: Packing, width: int, spread: bool = False) -> Callable[[torch.device], Found]:
    """Pack 19 rows; with ``spread`` some columns of them, each row to none or several places."""

    def call(device: torch.device) -> Found:
        x, ids = odd_rows(19, width), torch.arange(19) * 2**36 + 5
        columns, targets, places = None, None, 19
        if spread:
            columns = torch.arange(width - 1, -1, -3, dtype=torch.int32)
            counts = torch.arange(19) % 3
            indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
            places = int(indptr[-1])
            targets = indptr, torch.randperm(places, generator=torch.Generator().manual_seed(0)).int()
        k = width if columns is None else columns.numel()
        out = torch.full((places, packing.row_bytes(k)), 0xAA, dtype=torch.uint8)
        there = None if targets is None else (targets[0].to(device), targets[1].to(device))
        which = None if columns is None else columns.to(device)
        out = out.to(device)
        pack_rows(rows_on(device, x), packing, STREAM, ids.to(device), out, which, there)
        return (out,)

    return call


def packed_rows(packing: Packing, rows: int, width: int) -> Tensor:
    """The bytes of some rows, packed on the host when the case is made."""
    out = torch.empty(rows, packing.row_bytes(width), dtype=torch.uint8)
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(4))
    pack_rows(x, packing, STREAM, torch.arange(rows), out)
    return out


def unpacks(packing: Packing, width: int) -> Callable[[torch.device], Found]:
    """Unpack 13 rows."""
    data = packed_rows(packing, 13, width)
    return lambda device: (unpack_rows(data.to(device), packing, width),)


def matrix(rows: int, cols: int, entries: int, weighted: bool) -> Csr:
    """A matrix in which one row has a third of all entries, and some have none."""
    generator = torch.Generator().manual_seed(2)
    at = torch.randint(0, rows, (entries,), generator=generator)
    at[: entries // 3] = rows // 2
    source = torch.randint(0, cols, (entries,), generator=generator)
    weight = torch.rand(entries, generator=generator) if weighted else None
    return Csr.from_edges(at, source, rows, cols, weight)


def sums(packing: Packing, width: int, returned: bool = False) -> Callable[[torch.device], Found]:
    """Sums over weighted edges; with ``returned``, each row's copies added to what is there."""

    data = packed_rows(packing, 20, width)

    def call(device: torch.device) -> Found:
        a = matrix(9, 20, 61, weighted=not returned).to(device)
        out = torch.ones(9, width + 4, device=device)[:, :width]
        aggregate_packed(a.indptr, a.indices, a.weight, data.to(device), packing, width, out, accumulate=returned)
        return (out,)

    return call


def attends(heads: int, width: int) -> Callable[[torch.device], Found]:
    """Attention forward, then backward to targets and to sources."""

    def call(device: torch.device) -> Found:
        generator = torch.Generator().manual_seed(8)
        n, m, k = 9, 14, heads * width
        a = matrix(n, m, 70, weighted=False)
        x, grad = (torch.randn(rows, k, generator=generator) for rows in (m, n))
        source, target = (torch.randn(heads, width, generator=generator) / width**0.5 for _ in range(2))
        z = x.view(m, heads, width)
        src, dst = (z * source).sum(2), (z[:n] * target).sum(2)
        back, halo = (a.transpose().select_rows(torch.arange(*at)).to(device) for at in ((n,), (n, m)))
        x, grad, src, dst, source, target = (value.to(device) for value in (x, grad, src, dst, source, target))
        got = attend(a.to(device), x, src, dst, 0.2)
        targets = attend_targets(grad, got, 0.2)
        own = attend_sources(back, grad, x[:n], src[:n], targets, 0.2, Scores(source, target), True)
        other = attend_sources(halo, grad, x[n:], src[n:], targets, 0.2, Scores(source, target), False)
        assert got.positive is not None
        return (got.out, got.positive, got.nodes, *targets, *own, *other)

    return call


def activates(width: int, norm: bool) -> Callable[[torch.device], Found]:
    """The activation of 21 rows and its gradients."""

    def call(device: torch.device) -> Found:
        generator = torch.Generator().manual_seed(9)
        x, grad = (rows_on(device, torch.randn(21, width, generator=generator)) for _ in range(2))
        gamma, beta = (torch.randn(width, generator=generator).to(device) if norm else None for _ in range(2))
        drop = Drop(0.4, 1, 2, 3, (torch.arange(21) * 2**35).to(device))
        out, stats = activate(x, gamma, beta, True, drop)
        found = (out, stats, *activate_backward(grad, x, stats, gamma, beta, True, drop))
        return tuple(value for value in found if value is not None)

    return call


def steps(width: int, spread: bool) -> Callable[[torch.device], Found]:
    """A step of the memory of 17 rows."""

    def call(device: torch.device) -> Found:
        generator = torch.Generator().manual_seed(10)
        kept = torch.randn(17, width, generator=generator)
        columns = torch.arange(width - 1, -1, -2) if spread else None
        values = torch.randn(17, width if columns is None else columns.numel(), generator=generator)
        kept = kept.to(device)
        delta_step(kept, values.to(device), 0.9, 0.3, None if columns is None else columns.to(device))
        return (kept,)

    return call
