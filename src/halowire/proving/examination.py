"""The examination of a device: everything that is compared and measured, as one block of text for a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import torch

from halowire.kernels import kernels_in_use, why_twins
from halowire.launch import told_by_store, twins_by_rank
from halowire.proving.finding import Finding, error_words
from halowire.proving.kernel_proof import kernel_rates, prove_kernels
from halowire.proving.link_rates import host_rates, wire_rates
from halowire.proving.recipe_proof import WAITING, count_waits, prove_recipe, run_name, small_runs
from halowire.proving.steps import PATIENCE, Step
from halowire.proving.subject import Subject
from halowire.training import Config
from halowire.wire import NcclTransport, PinnedTransport, Transport

NOT_BY_NCCL = "not run: one GPU for several workers, and NCCL needs one for each"


@dataclass
class Examination:
    """What was found so far.

    Attributes:
        subject: the device, and how it is examined.
        kernels, recipes, waits: the comparisons, and the numbers of host waits.
        failures: measurements that failed.
        titles: the title of each section.
        rates, links: the lines of the measurements.
        left_out: the recipes that so many workers do not run.
    """

    subject: Subject
    kernels: list[Finding] = field(default_factory=list)
    recipes: list[Finding] = field(default_factory=list)
    waits: list[Finding] = field(default_factory=list)
    failures: list[Finding] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    rates: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def steps(self, workers: int) -> list[Step]:
        """What so many ``workers`` do, one after another; see `take_steps`."""
        runs = small_runs(self.subject, workers)
        self.left_out = sorted(set(self.subject.recipes) - {config.recipe for config in runs})
        counted = [name for name in WAITING if name in self.subject.recipes]
        return [
            Step("kernels", self.failures, self._kernels),
            *(Step(run_name(config), self.recipes, partial(self._compare, config)) for config in runs),
            *(Step(name, self.waits, partial(self._count, name)) for name in counted),
            Step("rates of kernels", self.failures, self._own_rates),
            *([Step("links between the devices", self.failures, self._wire_rates)] if workers > 1 else []),
        ]

    def _kernels(self, transport: Transport) -> None:
        why = told_by_store(_why_twins(self.subject.device), PATIENCE * transport.deadline)
        used = kernels_in_use(self.subject.device)
        self.titles = {
            "kernels": f"{used}{_twins_words(why)}",
            "workers": _workers(transport, self.subject),
            "waits": f"host waits in an epoch{_more_waits(transport)}:",
        }
        self.kernels += prove_kernels(self.subject)

    def _compare(self, config: Config, transport: Transport) -> None:
        self.recipes.append(prove_recipe(config, transport, self.subject))

    def _count(self, recipe: str, transport: Transport) -> None:
        self.waits.append(count_waits(recipe, transport, self.subject))

    def _own_rates(self, transport: Transport) -> None:
        """The rates of kernels and of the link to the host, which rank 0 measures while the others leave the GPU."""
        if transport.rank == 0:
            try:
                self._note(kernel_rates(self.subject), self.rates)
                self._note(host_rates(self.subject.device), self.links)
            except Exception as error:  # the others wait below, and need not do so until the deadline
                self.failures.append(Finding.of_failure("rates of kernels and copies", error_words(error)))
        transport.barrier("rates of rank 0")

    def _note(self, rates: dict[str, float | str], lines: list[str]) -> None:
        """Add the lines of the ``rates``; those that could not be measured are failures."""
        lines += [f"  {name}: {rate / 1e9:.1f} GB/s" for name, rate in rates.items() if not isinstance(rate, str)]
        failed = {name: words for name, words in rates.items() if isinstance(words, str)}
        self.failures += [Finding.of_failure(f"rate of {name}", words) for name, words in failed.items()]

    def _wire_rates(self, transport: Transport) -> None:
        """The rates of the link between the devices."""
        found, carrier = wire_rates(transport, self.subject.device), _carrier(transport)
        self.links += [
            f"  {carrier}, round trip: {1e6 * found['round trip']:.0f} us",
            f"  {carrier}, all to all, each worker: {found['all to all'] / 1e9:.2f} GB/s",
        ]

    def lines(self) -> list[str]:
        """The block of this worker."""
        titles = self.titles
        return [
            f"kernels         {titles.get('kernels', 'unknown')}",
            *_section("kernels against the CPU's", self.kernels, short=True),
            *_section(f"recipes against the CPU, {titles.get('workers', '')}", self.recipes),
            *(f"  {name}: not run, it takes another number of workers" for name in self.left_out),
            titles.get("waits", "host waits:"),
            *(f"  {'' if one.good else 'WRONG: '}{one.count_words()}" for one in self.waits),
            "rates of kernels:",
            *self.rates,
            "links:",
            *self.links,
            *([f"  NCCL, round trip: {NOT_BY_NCCL}"] if self.subject.shared else []),
            *(f"  WRONG: {one.words()}" for one in self.failures),
        ]

    def wrong(self) -> list[str]:
        """The lines of the comparisons and measurements that failed on this worker."""
        wrong = [one.words() for one in (*self.kernels, *self.recipes, *self.failures) if not one.good]
        return wrong + [f"host waits of {one.count_words()}" for one in self.waits if not one.good]


def _twins_words(reasons: list[str]) -> str:
    """Where and why torch's operations stand in for the kernels, in brackets."""
    found = twins_by_rank(reasons).items()
    return "".join(f" ({'torch ' + where + ': ' if where else ''}{why})" for why, where in found)


def _why_twins(device: torch.device) -> str:
    """Why torch's operations stand in for the kernels; never an error, which the others would wait for in vain."""
    try:
        return why_twins(device) or ""
    except Exception as error:
        return error_words(error)


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
