"""The kernels of a device against those of the CPU, to the byte where bytes are promised, and how fast they are."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch

from halowire.events import clock_of
from halowire.kernels import Csr, Packing, activate, aggregate_packed, pack_rows, unpack_rows
from halowire.proving.finding import Finding, error_words
from halowire.proving.kernel_cases import CLOSE, STREAM, KernelCase, difference, kernel_cases
from halowire.proving.subject import Subject

COLUMNS = 128
DEGREE = 16
REPEATS = 5


def prove_kernels(subject: Subject) -> list[Finding]:
    """Every kernel of the device; one that ends with an error is a finding, and the others are compared as well."""
    return [
        _compared(case, f"{case.name}, {width} columns", subject.device)
        for width in subject.widths
        for case in kernel_cases(width)
    ]


def _compared(case: KernelCase, name: str, device: torch.device) -> Finding:
    """The kernel twice: the results must repeat, and be those of the CPU's kernel."""
    try:
        first, again = case.on(device), case.on(device)
        apart = difference(first, case.call(), case.exact)
        repeats = difference(again, first, exact=True) == 0
    except Exception as error:
        return Finding.of_failure(name, error_words(error))
    return Finding(name, apart, 0.0 if case.exact else CLOSE, "" if repeats else "does not repeat")


def kernel_rates(subject: Subject) -> dict[str, float | str]:
    """Bytes per second, read and written, of some kernels on many rows; random sources, so that nothing is cached.

    Of a kernel that ends with an error, the error in words.
    """
    device, rows = subject.device, subject.rows
    generator = torch.Generator().manual_seed(1)
    packing = Packing(1)
    x = torch.randn(rows, COLUMNS, generator=generator).to(device)
    out = torch.empty_like(x)
    ids = torch.arange(rows).to(device)
    data = torch.empty(rows, packing.row_bytes(COLUMNS), dtype=torch.uint8, device=device)
    sources = torch.randint(0, rows, (rows * DEGREE,), generator=generator)
    edges = Csr.from_edges(torch.arange(rows).repeat_interleave(DEGREE), sources, rows, rows).to(device)
    weight = torch.randn(COLUMNS, COLUMNS, generator=generator).to(device)
    once, packed = x.nbytes, data.nbytes
    timed: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: out.copy_(x), 2 * once),
        "product": (lambda: torch.mm(x, weight, out=out), 2 * once),
        "sum of float32 rows": (lambda: edges.matmul(x, out=out), (DEGREE + 1) * once),
        "pack 1 bit": (lambda: pack_rows(x, packing, STREAM, ids, data), once + packed),
        "unpack 1 bit": (lambda: unpack_rows(data, packing, COLUMNS), once + packed),
        "sum of 1-bit rows": (
            lambda: aggregate_packed(edges.indptr, edges.indices, None, data, packing, COLUMNS, out),
            DEGREE * packed + once,
        ),
        "activation": (lambda: activate(x, weight[0], weight[1], True, None, out=out), 2 * once),
    }
    return {name: rate_of(device, work, nbytes) for name, (work, nbytes) in timed.items()}


def rate_of(device: torch.device, work: Callable[[], object], nbytes: int) -> float | str:
    """Bytes per second of ``work``, which reads and writes ``nbytes``; where it ends with an error, the error."""
    try:
        return nbytes / seconds_of(device, work)
    except Exception as error:
        return error_words(error)


def seconds_of(device: torch.device, work: Callable[[], object]) -> float:
    """Median seconds of ``work`` on ``device``, by its own clock; the first turn, which compiles, is left out."""
    clock, times = clock_of(device), [0.0] * REPEATS
    work()
    for turn in range(REPEATS):
        start = clock.now()
        work()
        clock.add(times, turn, start, clock.now())
    clock.read()
    return max(median(times), 1e-9)
