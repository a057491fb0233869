"""`halowire doctor --gpu` end to end on the simulated device: it prints one block, and finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from halowire.errors import WorkerError
from halowire.launch import run_local
from halowire.proving import kernel_proof
from halowire.proving.recipe_proof import NOT_COUNTED, prove_recipe, small_runs
from halowire.training import RECIPES
from halowire.training.flat import FlatGradients
from halowire.wire import Transport
from tests.support.scripts.doctor_script import sim_subject, with_a_wrong_byte
from tests.support.sim import SIM, Simulation

SCRIPT = "tests.support.scripts.doctor_script"


def test_the_block_of_a_machine_with_one_device(capfd):
    run_local(2, SCRIPT, ["shared", "exact", "hybrid"])
    lines = capfd.readouterr().out.splitlines()
    for line in (
        "kernels         torch (there are none for the device 'sim')",
        "kernels against the CPU's: 33 of 33 agree",
        "recipes against the CPU, 2 workers that share a GPU over Gloo, through the host's memory: 1 of 1 agree",
        "  hybrid: not run, it takes another number of workers",
        "host waits in an epoch, some for copies to the host's memory:",
        "  exact: 3",
        "rates of kernels:",
        "links:",
        "  NCCL, round trip: not run: one GPU for several workers, and NCCL needs one for each",
        "result          all comparisons agree",
    ):
        assert lines.count(line) == 1, line
    assert any(line.startswith("  exact, gat: ") for line in lines)
    assert any(line.startswith("  Gloo, through the host's memory, round trip: ") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "words", "waits"),
    [
        ("right", "2 workers over Gloo", 2),
        ("shared", "2 workers that share a GPU over Gloo, through the host's memory", 3),
    ],
)
def test_all_recipes(capfd, way, words, waits):
    run_local(2, SCRIPT, [way])
    lines = capfd.readouterr().out.splitlines()
    compared = len(RECIPES) - 1  # two workers are no hybrid
    assert f"recipes against the CPU, {words}: {compared} of {compared} agree" in lines
    assert all(f"  {recipe}: {waits}" in lines for recipe in ("exact", "halowire-late"))
    assert any("NCCL, round trip: not run" in line for line in lines) == (way == "shared")
    assert "result          all comparisons agree" in lines


@pytest.mark.slow
def test_four_workers_compare_the_hybrid_too(capfd):
    run_local(4, SCRIPT, ["right", "gnnpipe", "hybrid", "first-layer", "halowire-late"])
    lines = capfd.readouterr().out.splitlines()
    assert "recipes against the CPU, 4 workers over Gloo: 4 of 4 agree" in lines
    assert "result          all comparisons agree" in lines


@pytest.mark.slow
def test_a_wrong_byte_fails_and_is_named(capfd):
    with pytest.raises(WorkerError, match="doctor ended with 1"):
        run_local(2, SCRIPT, ["wrong", "exact"])
    said = capfd.readouterr()
    assert "  WRONG: pack 1-bit minmax, 48 columns: " in said.out
    assert "result          comparisons failed: 1 on rank 0, 1 on rank 1" in said.out
    assert "2 comparisons of the GPU with the CPU failed; please report the text above" in said.err


@pytest.mark.slow
def test_a_wrong_byte_of_another_rank_is_named_too(capfd):
    with pytest.raises(WorkerError, match="doctor ended with 1"):
        run_local(2, SCRIPT, ["wrong-1", "exact"])
    lines = capfd.readouterr().out.splitlines()
    assert "kernels against the CPU's: 33 of 33 agree" in lines
    assert any(line.startswith("WRONG on rank 1: pack 1-bit minmax, 48 columns: ") for line in lines)
    assert lines[-1] == "result          comparisons failed: 1 on rank 1"


def test_what_fails_is_a_finding_and_the_rest_is_examined(capfd):
    with pytest.raises(WorkerError, match="doctor ended with 1"):
        run_local(2, SCRIPT, ["fails", "exact", "half"])
    lines = capfd.readouterr().out.splitlines()
    for line in (
        "kernels against the CPU's: 32 of 33 agree",
        "  WRONG: pack 1-bit minmax, 48 columns: failed: ValueError: no such instruction",
        "recipes against the CPU, 2 workers over Gloo: 1 of 2 agree",
        "  WRONG: rate of product: failed: RuntimeError: out of registers",
        "WRONG on rank 1: exact, gat: failed: RuntimeError: only this rank",
        "rates of kernels:",
        "links:",
        "result          comparisons failed: 6 on rank 0, 3 on rank 1",
    ):
        assert lines.count(line) == 1, line
    assert any(line.startswith("  WRONG: exact, gat: failed: LateError: rank 0 gave up waiting") for line in lines)
    assert any(line.startswith("  half, ") for line in lines), "the next recipe is compared on new connections"
    assert f"  WRONG: exact: {NOT_COUNTED}" in lines
    assert any(line.startswith("  Gloo, all to all, each worker: ") for line in lines)


def _kernel_fault(rank: int) -> list[str]:
    with Simulation() as simulation, pytest.MonkeyPatch.context() as patch:
        cases = kernel_proof.kernel_cases
        patch.setattr(kernel_proof, "kernel_cases", lambda width: with_a_wrong_byte(cases(width)[:2]))
        return [one.words() for one in kernel_proof.prove_kernels(sim_subject(simulation)) if not one.good]


def _recipe_fault(rank: int) -> list[str]:
    """What is found where a thousandth of the largest gradient is added to one gradient on the device."""
    reduce = FlatGradients.reduce

    def wrong(self: FlatGradients, *given: Any) -> list[float]:
        sums = reduce(self, *given)
        if self.gradients.device.type == SIM:
            self.gradients[3] += 1e-3 * self.gradients.abs().max()  # ten times what is allowed
        return sums

    with Simulation() as simulation, pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlatGradients, "reduce", wrong)
        subject = replace(sim_subject(simulation), recipes=("exact",))
        (config,) = small_runs(subject, 2)
        found = prove_recipe(config, Transport(deadline=60), subject)
        return [] if found.good else [found.name]


def test_faults_are_found(on_sim: Callable[..., list[Any]]) -> None:
    for said in on_sim(_kernel_fault):
        assert len(said) == 1 and said[0].startswith("pack 1-bit minmax, 48 columns: 5.3e-03 apart")
    assert on_sim(_recipe_fault) == [["exact, gat"]] * 2
