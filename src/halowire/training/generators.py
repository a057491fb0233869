"""The states of torch's random generators: the CPU's, and that of the device in use."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

HOST, DEVICE = "random", "random.device"


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """The state of the CPU's generator and, where ``device`` is another one, of its generator; bytes on the CPU."""
    states = {HOST: torch.get_rng_state()}
    if device.type != "cpu":
        states[DEVICE] = torch.get_device_module(device).get_rng_state(device).cpu()
    return states


def restore_generators(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Go on drawing from ``states``, which :func:`generator_states` gave; others among them are not looked at.

    A run that went on from the CPU to a GPU has no state for the GPU, which then goes on from where it is.
    """
    torch.set_rng_state(states[HOST])
    if device.type != "cpu" and DEVICE in states:
        torch.get_device_module(device).set_rng_state(states[DEVICE], device)
