"""`halowire doctor` shows versions, kernels and network, and measures a round trip; with `--gpu` it proves the GPUs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import warnings
from dataclasses import dataclass

import torch

from halowire.cli.parse import parse
from halowire.errors import InputError
from halowire.kernels import kernels_in_use, simd_level, why_twins
from halowire.launch import Place, interface_to, launched, refuse_crowd, run_workers
from halowire.proving import Subject, prove_worker, proving_workers
from halowire.worker import roundtrip_worker

PACKAGES = ("halowire", "torch", "numpy", "safetensors", "pymetis", "torch-geometric", "tensorboard")


WORKERS = 2
"""Local workers of the round trip, unless the flag says otherwise."""


@dataclass(frozen=True)
class Arguments:
    """Show what halowire finds on this machine, and measure a round trip between all workers."""

    workers: int | None = None
    """number of local workers for the round trip, by default 2; under torchrun its own workers are measured"""
    gpu: bool = False
    """compare kernels and recipes on this machine's GPUs with the CPU, and measure them, instead of the round trip;
    takes about a minute, and prints a block of text for a report"""


def run(argv: list[str], subject: Subject | None = None) -> int:
    """Print versions, kernels, cores, GPUs and the network interface, then measure, or prove the GPUs.

    ``subject`` is the device that is proven instead of a GPU.
    """
    arguments = parse(Arguments, "doctor", argv)
    if arguments.gpu and arguments.workers is not None:
        raise InputError(
            f"--workers is {arguments.workers}, but --gpu starts as many as the GPUs need, at most 4; "
            "leave --workers out, or start other workers with torchrun"
        )
    workers = WORKERS if arguments.workers is None else arguments.workers
    if workers < 1:
        raise InputError(f"--workers is {workers}; at least one worker is needed")
    refuse_crowd(workers)
    workers = proving_workers() if arguments.gpu and subject is None else workers
    if Place.here().rank == 0:
        print("\n".join(_facts()), flush=True)
    if launched() or (arguments.gpu and workers == 1):
        prove_worker(subject) if arguments.gpu else roundtrip_worker()
    elif arguments.gpu or workers > 1:
        run_workers(workers, ["prove" if arguments.gpu else "roundtrip"])
    return 0


def _facts() -> list[str]:
    interface, address = interface_to(os.environ.get("MASTER_ADDR", "localhost"))
    level = f", {simd_level()}" if kernels_in_use() == "native" else ""
    return [
        f"python          {platform.python_version()}, {platform.system()} {platform.machine()}",
        *[f"{name:<15} {_version(name)}" for name in PACKAGES],
        f"kernels         {kernel_facts(torch.device('cpu'))}{level}",
        f"cores           {len(os.sched_getaffinity(0))}, torch uses {torch.get_num_threads()} threads",
        *gpu_facts(),
        f"interface       {interface or 'unknown'} ({address})",
    ]


def gpu_facts() -> list[str]:
    """Which GPUs there are, and which kernels they get; each kind of GPU once."""
    if not torch.cuda.is_available():
        return ["GPUs            none"]
    kinds: dict[tuple[str, str], int] = {}
    for number in range(torch.cuda.device_count()):
        device = torch.device("cuda", number)
        kind = torch.cuda.get_device_name(device), kernel_facts(device)
        kinds[kind] = kinds.get(kind, 0) + 1
    built = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    lines = [f"GPUs            {count} x {name}, kernels: {kernels}" for (name, kernels), count in kinds.items()]
    return [*lines, f"built for       {built}, triton {_version('triton')}"]


def kernel_facts(device: torch.device) -> str:
    """The kernels of ``device`` and, where torch's operations stand in for them, why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the line itself says it
        kernels = kernels_in_use(device)
    return f"torch ({why_twins(device)})" if kernels == "torch" else kernels


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
