"""A worker of `halowire doctor --gpu` whose device is the simulated one; a fault can be put in on purpose.

With "wrong" every worker's device is wrong, with "wrong-1" that of rank 1 alone. With "shared" the workers share one
device, as on a machine with one GPU, and their rows travel through the host.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
from halowire.training import RECIPES
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


def main() -> None:
    """Run the verb with the device `sim` on some recipes; the launcher hears of an error."""
    fault, *recipes = sys.argv[1:]
    with Simulation() as simulation, pytest.MonkeyPatch.context() as patch:
        if fault == "wrong" or (fault == "wrong-1" and Place.here().rank == 1):
            cases = kernel_proof.kernel_cases
            patch.setattr(kernel_proof, "kernel_cases", lambda width: with_a_wrong_byte(cases(width)))
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
