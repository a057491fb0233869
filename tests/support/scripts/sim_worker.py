"""A worker of a command whose device is the simulated one, with as much memory as an environment variable says."""

from __future__ import annotations

import os

import pytest
import torch
from tests.support.sim import SIM, Simulation

from halowire import worker
from halowire.launch import device_choice

FREE_BYTES = "HALOWIRE_TEST_FREE_BYTES"


def main() -> None:
    """Work as any worker does, on the simulated device."""
    with Simulation() as simulation, pytest.MonkeyPatch.context() as patch:
        simulation.module.capacity = int(os.environ[FREE_BYTES])
        patch.setattr(device_choice, "choose_device", lambda setting, place: torch.device(SIM, 0))
        worker.main()
