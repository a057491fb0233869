"""Every implementation of the kernels that this machine can run, and a switch between them.

`make test-gpu-kernels` runs the tests of the kernels once more with ``TRITON_INTERPRET=1``, and then with
``"triton"`` among the choices: the Triton kernels, interpreted on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from halowire.kernels import dispatch
from halowire.kernels.dispatch import known_levels
from halowire.kernels.triton_devices import interpreted

CHOICES = ("torch", *known_levels(), *(("triton",) if interpreted() else ()))


@contextmanager
def use(choice: str) -> Iterator[None]:
    """Run the twins (``"torch"``), the interpreted Triton kernels, or native code at the SIMD level ``choice``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HALOWIRE_KERNELS", choice if choice in ("torch", "triton") else "native")
        if choice in ("torch", "triton"):
            patch.delenv("HALOWIRE_SIMD", raising=False)
        else:
            patch.setenv("HALOWIRE_SIMD", choice)
        yield


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Run native code on ``count`` threads, even for work too small to be worth it."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "WORK_PER_THREAD", 1)
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
