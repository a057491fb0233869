"""A worker of `halowire doctor --gpu` whose device is the simulated one; a fault can be put in on purpose.

With "wrong" every worker's device is wrong, with "wrong-1" that of rank 1 alone. With "fails" a kernel and some
rates end with an error, a recipe does so on rank 1 alone, and waits are not counted. With "shared" the workers share
one device, as on a machine with one GPU, and their rows travel through the host.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from tests.support.device_case import EpochCounts
from tests.support.sim import SIM, Simulation, StreamWatch

from halowire.cli import main as command
from halowire.cli.doctor import run
from halowire.launch import Place, group, tell_launcher
from halowire.proving import Subject, kernel_proof
from halowire.proving.kernel_cases import Found, KernelCase
from halowire.training import RECIPES, Trainer
from halowire.wire import PinnedTransport
from halowire.worker import leave


class Watch(EpochCounts):
    """Counts the waits of every epoch."""

    @property
    def per_epoch(self) -> list[int]:
        """Their numbers."""
        return [waits.total() for waits in self.waits]


def sim_subject(simulation: Simulation) -> Subject:
    """The simulated device, examined with little work."""

    @contextmanager
    def watch() -> Iterator[Watch]:
        yield Watch(simulation.counts)

    return Subject(torch.device(SIM, 0), watch, widths=(48,), rows=256)


def with_a_wrong_byte(cases: list[KernelCase]) -> list[KernelCase]:
    """The cases, the first of which is wrong in one byte on the device."""
    first = cases[0]

    def on(device: torch.device) -> Found:
        (out,) = first.on(device)
        if device.type == SIM:
            out[0, 0] += 1
        return (out,)

    return [replace(first, on=on), *cases[1:]]


def broken(patch: pytest.MonkeyPatch) -> None:
    """Let a kernel, some rates, a recipe and the count of waits fail."""
    cases, rate, forward = kernel_proof.kernel_cases, kernel_proof.rate_of, Trainer.forward_backward

    def on(device: torch.device) -> Found:
        raise ValueError("no such instruction\nand its listing")

    def out_of_registers() -> None:
        raise RuntimeError("out of registers")

    def of_some(device: torch.device, work: Callable[[], object], nbytes: int) -> float | str:
        return rate(device, out_of_registers if nbytes == 2 * 256 * 128 * 4 else work, nbytes)

    before: list[int] = []

    def one_fails(self: Trainer, epoch: int) -> float:
        if self.config.recipe == "exact" and len(before) < 1:
            before.append(epoch)
            if Place.here().rank == 1:
                raise RuntimeError("only this rank")
            self.transport.deadline = 1.0  # the other one need not wait for it as long as users would
        return forward(self, epoch)

    patch.setattr(kernel_proof, "kernel_cases", lambda width: [replace(cases(width)[0], on=on), *cases(width)[1:]])
    patch.setattr(kernel_proof, "rate_of", of_some)
    patch.setattr(Trainer, "forward_backward", one_fails)
    patch.setattr(Watch, "per_epoch", property(lambda self: [0] * len(self.waits)))


def main() -> None:
    """Run the verb with the device `sim` on some recipes; the launcher hears of an error."""
    fault, *recipes = sys.argv[1:]
    with Simulation() as simulation, pytest.MonkeyPatch.context() as patch:
        if fault == "wrong" or (fault == "wrong-1" and Place.here().rank == 1):
            cases = kernel_proof.kernel_cases
            patch.setattr(kernel_proof, "kernel_cases", lambda width: with_a_wrong_byte(cases(width)))
        if fault == "fails":
            broken(patch)
        if fault == "shared":
            # torch's Gloo says that it carries rows of CUDA, and knows nothing of the simulated device.
            patch.setattr(
                group, "transport_on", lambda at, limit, run: PinnedTransport(None, limit, device=at, run=run)
            )
            simulation.watch_streams(StreamWatch())
        subject = replace(sim_subject(simulation), recipes=tuple(recipes or RECIPES), shared=fault == "shared")
        code = command._guarded(lambda words: run(words, subject), ["--gpu"])
    if code:
        tell_launcher(f"doctor ended with {code}")
    leave(code)
