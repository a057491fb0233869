"""The examination of a device: everything that is compared and measured, as one block of text for a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from halowire.kernels import kernels_in_use, why_twins
from halowire.proving.finding import Finding
from halowire.proving.kernel_proof import kernel_rates, prove_kernels
from halowire.proving.link_rates import host_rates, wire_rates
from halowire.proving.recipe_proof import count_waits, prove_recipes, small_run
from halowire.proving.subject import Subject
from halowire.wire import NcclTransport, PinnedTransport, Transport

NOT_BY_NCCL = "not run: one GPU for several workers, and NCCL needs one for each"


@dataclass(frozen=True)
class Examination:
    """What was found: a block of lines, and those of the comparisons that failed on this worker."""

    lines: list[str]
    wrong: list[str]


def examine(transport: Transport, subject: Subject) -> Examination:
    """Compare and measure everything on the device of every worker; all workers call this together."""
    device = subject.device
    kernels = prove_kernels(subject)
    recipes = prove_recipes(transport, subject)
    waits = count_waits(transport, subject)
    others = [name for name in subject.recipes if small_run(name, 0, transport.size) is None]
    used, why = kernels_in_use(device), why_twins(device)
    lines = [
        f"kernels         {used}{f' ({why})' if why else ''}",
        *_section("kernels against the CPU's", kernels, short=True),
        *_section(f"recipes against the CPU, {_workers(transport, subject)}", recipes),
        *(f"  {name}: not run, it takes another number of workers" for name in others),
        f"host waits in an epoch{_more_waits(transport)}:",
        *(f"  {one.name}: {one.apart:.0f}{'' if one.good else f', more than {one.allowed:.0f}'}" for one in waits),
        *_own_rates(transport, subject),
        *_wire_lines(transport, subject),
    ]
    wrong = [one.words() for one in (*kernels, *recipes) if not one.good]
    wrong += [
        f"host waits of {one.name}: {one.apart:.0f}, more than {one.allowed:.0f}" for one in waits if not one.good
    ]
    return Examination(lines, wrong)


def _section(title: str, findings: list[Finding], short: bool = False) -> Iterable[str]:
    """A title with the number of good findings, then the findings: all of them or, with ``short``, the bad ones."""
    good = sum(one.good for one in findings)
    yield f"{title}: {good} of {len(findings)} agree"
    for one in findings:
        if not one.good or not short:
            yield f"  {'' if one.good else 'WRONG: '}{one.words()}"


def _workers(transport: Transport, subject: Subject) -> str:
    """How many workers there are, and what carries rows between their devices."""
    if transport.size == 1:
        return "1 worker, so that nothing travels"
    return f"{transport.size} workers{' that share a GPU' if subject.shared else ''} over {_carrier(transport)}"


def _carrier(transport: Transport) -> str:
    if isinstance(transport, NcclTransport):
        return "NCCL"
    return "Gloo, through the host's memory" if isinstance(transport, PinnedTransport) else "Gloo"


def _more_waits(transport: Transport) -> str:
    return ", some for copies to the host's memory" if isinstance(transport, PinnedTransport) else ""


def _own_rates(transport: Transport, subject: Subject) -> list[str]:
    """The rates of kernels and of the link to the host, which rank 0 measures while the others leave the GPU alone."""
    lines = []
    if transport.rank == 0:
        lines = [
            "rates of kernels:",
            *(f"  {name}: {rate / 1e9:.1f} GB/s" for name, rate in kernel_rates(subject).items()),
            "links:",
            *(f"  {name}: {rate / 1e9:.1f} GB/s" for name, rate in host_rates(subject.device).items()),
        ]
    transport.barrier("rates of rank 0")
    return lines


def _wire_lines(transport: Transport, subject: Subject) -> list[str]:
    """The rates of the link between the devices."""
    if transport.size == 1:
        return []
    found, carrier = wire_rates(transport, subject.device), _carrier(transport)
    lines = [
        f"  {carrier}, round trip: {1e6 * found['round trip']:.0f} us",
        f"  {carrier}, all to all, each worker: {found['all to all'] / 1e9:.2f} GB/s",
    ]
    return [*lines, f"  NCCL, round trip: {NOT_BY_NCCL}"] if subject.shared else lines
