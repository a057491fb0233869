"""Replaces Triton's launch: the kernel is compiled for a GPU that is not here, and its PTX runs on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from triton.runtime.jit import JITFunction

from halowire.kernels import dispatch
from tests.support.gpu.targets import Compiled, compiled
from tests.support.ptx.machine import execute
from tests.support.ptx.program import read_program

Change = Callable[[str], str]


@contextmanager
def launches(*targets: str, run: str | None = None, change: Change | None = None) -> Iterator[list[Compiled]]:
    """Let the dispatcher give tensors of the CPU to Triton, whose launches are compiled for all ``targets``.

    Args:
        targets: keys of `targets.TARGETS`.
        run: the target, with ``sm`` in its name, whose PTX is executed; None: nothing is computed.
        change: applied to the PTX before it is executed, to inject a fault.
    """
    made: list[Compiled] = []

    def launch(kernel: JITFunction, *arguments: Any, grid: tuple[int, ...], warmup: bool, **constants: Any) -> None:
        for target in targets:
            one = compiled(kernel, arguments, constants, target)
            made.append(one)
            if target == run:
                text = one.text if change is None else change(one.text)
                execute(read_program(text), grid, one.arguments, one.shared)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HALOWIRE_KERNELS", "triton")
        patch.setattr(dispatch, "interpreted", lambda: True)
        patch.setattr(dispatch, "serves", lambda device: True)
        patch.setattr(JITFunction, "run", launch)
        patch.setattr(torch.cuda, "device_of", lambda tensor: torch.no_grad())
        yield made
