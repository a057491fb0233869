"""`halowire doctor` shows versions, kernels and network, and measures a round trip between all workers."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass

import torch

from halowire.cli.parse import parse
from halowire.errors import InputError
from halowire.kernels import kernels_in_use, simd_level
from halowire.launch import Place, interface_to, launched, refuse_crowd, run_workers
from halowire.worker import roundtrip_worker

PACKAGES = ("halowire", "torch", "numpy", "safetensors", "pymetis", "torch-geometric", "tensorboard")


@dataclass(frozen=True)
class Arguments:
    """Show what halowire finds on this machine, and measure a round trip between all workers."""

    workers: int = 2
    """number of local workers for the round trip; under torchrun its own workers are measured"""


def run(argv: list[str]) -> int:
    """Print versions, kernels, cores, GPUs and the network interface, then measure a round trip between the workers."""
    arguments = parse(Arguments, "doctor", argv)
    if arguments.workers < 1:
        raise InputError(f"--workers is {arguments.workers}; at least one worker is needed")
    refuse_crowd(arguments.workers)
    if Place.here().rank == 0:
        print("\n".join(_facts()), flush=True)
    if launched():
        roundtrip_worker()
    elif arguments.workers > 1:
        run_workers(arguments.workers, ["roundtrip"])
    return 0


def _facts() -> list[str]:
    interface, address = interface_to(os.environ.get("MASTER_ADDR", "localhost"))
    devices = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "none"
    native = kernels_in_use() == "native"
    return [
        f"python          {platform.python_version()}, {platform.system()} {platform.machine()}",
        *[f"{name:<15} {_version(name)}" for name in PACKAGES],
        f"kernels         {kernels_in_use()}"
        + (f", {simd_level()}" if native else " (no native module: install with a C++ compiler)"),
        f"cores           {len(os.sched_getaffinity(0))}, torch uses {torch.get_num_threads()} threads",
        f"GPUs            {devices}",
        f"interface       {interface or 'unknown'} ({address})",
    ]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
