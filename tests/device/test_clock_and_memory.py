"""Seconds and bytes of a run on a device are the device's own, and reading them makes the host wait once an epoch."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from halowire.events import DeviceClock, HostClock, Ledger, clock_of
from halowire.schedules import Timeline
from halowire.training import Hooks, Silent
from halowire.training.worker_memory import free_memory, peak_memory
from tests.support.device_case import config_of, trainer_on
from tests.support.sim import SIM, Simulation


def _phases(rank: int) -> None:
    with Simulation() as simulation:
        ledger = Ledger()
        ledger.measure_by(clock_of(torch.device(SIM, 0)))
        x = torch.ones(3, device=SIM)
        before = simulation.counts.waits.total()
        with ledger.phase("forward"):
            x + x
            with ledger.waiting(1, "forward"):
                x + x
                x + x
            x * x
        with ledger.phase("idle"):
            sum(range(10**6))  # the host is busy, the device is not
        with pytest.raises(RuntimeError, match="both events must be completed"):
            _without_waiting(ledger)
        assert simulation.counts.waits.total() == before
        entry = ledger.take()
        assert dict(entry.phases) == pytest.approx({"forward": 0.002, "wait": 0.002, "idle": 0.0})
        assert entry.exchanges[1, "forward"] == pytest.approx([0.0, 0.002])
        assert simulation.counts.waits.total() == before + 1
        ledger.take()
        assert simulation.counts.waits.total() == before + 1, "where nothing was measured, nothing is read"
        with ledger.phase("forward"), pytest.raises(ValueError, match="within the phase 'forward'"):
            ledger.measure_by(HostClock())


def _without_waiting(ledger: Ledger) -> None:
    """Read the clock as if its events had been waited for."""
    clock = ledger._clock
    assert isinstance(clock, DeviceClock)
    since, until = clock._spans[0][2:]
    since.elapsed_time(until)


def test_phases_are_measured_by_the_device_and_read_at_once(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_phases)


def _timeline(rank: int) -> None:
    with Simulation() as simulation:
        ledger = Ledger()
        ledger.measure_by(clock_of(torch.device(SIM, 0)))
        timeline, x = Timeline(ledger), torch.ones(3, device=SIM)
        before = simulation.counts.waits.total()
        timeline.begin(True)
        x + x
        with timeline.span("forward", 0):
            x + x
            x + x
        with timeline.span("wait", 1):
            sum(range(10**6))  # the host is busy, the device is not
        assert simulation.counts.waits.total() == before
        ledger.take()
        assert [span[:3] for span in timeline.spans] == [("forward", 0, -1), ("wait", 1, -1)]
        assert [span[3:] for span in timeline.spans] == [pytest.approx((0.001, 0.003)), pytest.approx((0.003, 0.003))]


def test_the_timeline_of_a_pipeline_is_the_devices(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_timeline)


def _memory(rank: int) -> None:
    with Simulation() as simulation:
        held = simulation.module.memory_allocated()
        x = torch.ones(1000, device=SIM, requires_grad=True)
        view, y = x[10:], x.exp()  # the exponential is kept for backward
        assert simulation.module.memory_allocated() == held + 8000
        loss = y.sum()
        del y
        assert simulation.module.memory_allocated() == held + 8004, "backward still needs it"
        loss.backward()
        del loss
        x.grad = None
        assert simulation.module.memory_allocated() == held + 4000
        del x, view
        assert simulation.module.memory_allocated() == held
        assert peak_memory(torch.device(SIM, 0)) >= held + 12000
        simulation.module.capacity, before = held + 5000, simulation.module.capacity
        assert free_memory(torch.device(SIM, 0)) == 5000
        simulation.module.capacity = before


def test_memory_is_counted_for_as_long_as_a_tensor_needs_it(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_memory)


def _run(rank: int) -> dict[str, Any]:
    with Simulation() as simulation, tempfile.TemporaryDirectory() as folder:
        simulation.module.reset_peak_memory_stats()
        trainer = trainer_on(SIM, config_of("sage", "exact"), "classes", Path(folder))
        start = simulation.module.operations
        summary = trainer.run(Hooks(Silent(), keep=False))
        lines = [json.loads(line) for line in Path(folder, f"events-{rank}.jsonl").read_text().splitlines()]
        epochs = [line for line in lines if line["event"] == "epoch"]
        ticks = sum(sum(line["phases"].values()) for line in epochs)
        peak = simulation.module.max_memory_allocated()
        return summary | {"ticks": ticks, "all": (simulation.module.operations - start) / 1e3, "peak": peak}


def test_a_run_reports_the_seconds_and_the_memory_of_its_device(on_sim: Callable[..., list[Any]]) -> None:
    both = on_sim(_run)
    assert all(0.2 * one["all"] < one["ticks"] < one["all"] for one in both), "phases are in the device's time"
    assert {one["peak_memory_bytes"] for one in both} == {max(one["peak"] for one in both)}
    assert {(one["device"], one["kernels"], one["why_twins"]) for one in both} == {
        (SIM, "torch", "there are none for the device 'sim'")
    }
