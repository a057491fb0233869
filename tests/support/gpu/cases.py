"""The launches that are verified, which `halowire doctor --gpu` runs too, and what the torch twins compute for them."""

from __future__ import annotations

from halowire.proving.kernel_cases import CLOSE, PACKINGS, STREAM, Found, KernelCase, difference
from halowire.proving.kernel_cases import kernel_cases as cases
from tests.support.choices import use

__all__ = ["CLOSE", "PACKINGS", "STREAM", "cases", "difference", "twin_of"]


def twin_of(case: KernelCase) -> Found:
    """What the torch twin computes."""
    with use("torch"):
        return case.call()
