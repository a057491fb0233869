"""Which tensors the Triton kernels can take, and why they cannot take others."""

from __future__ import annotations

import os
import re
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import torch

OLDEST = (8, 0)
"""The oldest compute capability of NVIDIA's GPUs that the kernels are compiled and checked for."""
LEAST_TRITON = (3, 7)
"""The oldest version of Triton whose compiler made what the checks have seen: they ran with 3.7.1."""
AMD = ("gfx90a", "gfx94", "gfx95")
"""How the names of AMD's GPUs begin that the kernels can run on; gfx90a and gfx942 are compiled for and checked."""


def interpreted() -> bool:
    """Whether Triton interprets its kernels, on tensors of the CPU; for tests only."""
    return os.environ.get("TRITON_INTERPRET", "0") in ("1", "true", "on")


@cache
def reason_against(device: torch.device) -> str | None:
    """Why the Triton kernels do not run on ``device``; None where they do."""
    if device.type == "cpu" and not interpreted():
        return "the tensors are on the CPU"
    if device.type not in ("cpu", "cuda"):
        return f"there are none for the device {device.type!r}"
    if find_spec("triton") is None:
        return "triton is not installed; a CUDA or ROCm build of torch brings it"
    if (problem := _unfit_triton()) is not None:
        return problem
    return None if device.type == "cpu" else _too_old(device)


def _unfit_triton() -> str | None:
    """Why the version of Triton that is installed cannot be used; None where it can."""
    try:
        version = triton_version()
    except Exception as error:  # a broken installation fails in ways of its own
        return f"triton cannot be imported ({type(error).__name__}); install torch anew"
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) >= LEAST_TRITON:
        return None
    return (
        f"triton is {version or 'of no known version'}; the kernels are checked with {_dotted(LEAST_TRITON)} and later"
    )


def triton_version() -> str:
    """The version of the Triton that is imported; ROCm's builds of torch bring one under another package's name."""
    return str(getattr(import_module("triton"), "__version__", ""))


def _dotted(version: tuple[int, int]) -> str:
    return "{}.{}".format(*version)


def _too_old(gpu: torch.device) -> str | None:
    """Why the kernels, which are compiled and checked for newer ones, do not run on ``gpu``; None where they do."""
    if torch.version.hip is not None:
        name = torch.cuda.get_device_properties(gpu).gcnArchName.partition(":")[0]
        return None if name.startswith(AMD) else f"the GPU is {name}; the kernels need one of {', '.join(AMD)}"
    capability = torch.cuda.get_device_capability(gpu)
    if capability < OLDEST:
        found = _dotted(capability)
        return f"the GPU has compute capability {found}; the kernels need {_dotted(OLDEST)} or above"
    return None


@cache
def serves(device: torch.device) -> bool:
    """Whether the Triton kernels run on ``device``; says once why a GPU has to do without them.

    Of the workers of a machine the first one says it for all.
    """
    reason = reason_against(device)
    if reason is not None and device.type == "cuda" and os.environ.get("LOCAL_RANK", "0") == "0":
        warnings.warn(f"halowire uses torch's operations instead of its Triton kernels: {reason}", stacklevel=2)
    return reason is None
