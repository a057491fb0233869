"""What carries rows between the devices of two workers: NCCL, or Gloo by way of the host's memory."""

from __future__ import annotations

import torch
import torch.distributed as dist

from halowire.errors import InputError


def choose_carrier(setting: str, device: torch.device) -> str:
    """``nccl`` or ``gloo``, as the setting ``nccl``, ``gloo`` or ``auto`` says for rows on ``device``."""
    if device.type == "cpu":
        if setting == "nccl":
            raise InputError("--transport nccl carries rows between GPUs, but the rows are on the CPU; leave it out")
        return "gloo"
    if setting == "nccl" and not dist.is_nccl_available():
        raise InputError("--transport nccl needs a torch with NCCL, which this one is not; use --transport gloo")
    return "nccl" if setting != "gloo" and dist.is_nccl_available() else "gloo"


def carrier_words(carrier: str, device: torch.device) -> str:
    """What the console adds to its line about the network."""
    if device.type == "cpu":
        return ""
    if carrier == "nccl":
        return "; NCCL between GPUs"
    reason = "" if dist.is_nccl_available() else ": this torch has no NCCL"
    return f"; Gloo between GPUs, through the host's memory{reason}"


def device_and_carrier(device: torch.device, carrier: str) -> str:
    """The kind of device and what carries its rows, which must be the same on all workers."""
    return device.type if device.type == "cpu" else f"{device.type} with {carrier}"
