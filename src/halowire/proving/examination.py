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
from halowire.wire import Transport


@dataclass(frozen=True)
class Examination:
    """What was found: a block of lines, and how many comparisons failed on this worker."""

    lines: list[str]
    failed: int


def examine(transport: Transport, subject: Subject, wire: str) -> Examination:
    """Compare and measure everything on the device of every worker; all workers call this together.

    ``wire`` names what carries rows between the devices.
    """
    device = subject.device
    kernels = prove_kernels(subject)
    recipes = prove_recipes(transport, subject)
    waits = count_waits(transport, subject)
    others = [name for name in subject.recipes if small_run(name, 0, transport.size) is None]
    used, why = kernels_in_use(device), why_twins(device)
    lines = [
        f"kernels         {used}{f' ({why})' if why else ''}",
        *_section("kernels against the CPU's", kernels, short=True),
        *_section(f"recipes against the CPU, {transport.size} workers over {wire}", recipes),
        *(f"  {name}: not run, it takes another number of workers" for name in others),
        "host waits in an epoch:",
        *(f"  {one.name}: {one.apart:.0f}{'' if one.good else f', more than {one.allowed:.0f}'}" for one in waits),
        "rates of kernels:",
        *(f"  {name}: {rate / 1e9:.1f} GB/s" for name, rate in kernel_rates(subject).items()),
        "links:",
        *(f"  {name}: {rate / 1e9:.1f} GB/s" for name, rate in host_rates(device).items()),
    ]
    if transport.size > 1:
        found = wire_rates(transport, device)
        lines.append(f"  {wire} round trip: {1e6 * found['round trip']:.0f} us")
        lines.append(f"  {wire} all to all, each worker: {found['all to all'] / 1e9:.2f} GB/s")
    return Examination(lines, sum(not one.good for one in (*kernels, *recipes, *waits)))


def _section(title: str, findings: list[Finding], short: bool = False) -> Iterable[str]:
    """A title with the number of good findings, then the findings: all of them or, with ``short``, the bad ones."""
    good = sum(one.good for one in findings)
    yield f"{title}: {good} of {len(findings)} agree"
    for one in findings:
        if not one.good or not short:
            yield f"  {'' if one.good else 'WRONG: '}{one.words()}"
