"""The build of `make sanitize` finds what it is there for: indices and memory out of bounds end with a report."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.sanitized import ROOT, environment

BEGIN = """
import torch
import tests.support.sanitized
from halowire.kernels import dispatch
from halowire.kernels.aggregate import aggregate
native = dispatch.load_native()
assert native.CHECKED
"""
FAULTS = {
    "index too large": (
        "aggregate(torch.tensor([0, 1]), torch.tensor([4], dtype=torch.int32), None, torch.ones(4, 3))",
        "aggregate: the index at place 0 lies outside 0..3",
    ),
    "index below zero": (
        "aggregate(torch.tensor([0, 2]), torch.tensor([0, -1]), None, torch.ones(4, 3))",
        "aggregate: the index at place 1 lies outside 0..3",
    ),
    "falling indptr": (
        "aggregate(torch.tensor([0, 2, 1, 2]), torch.tensor([0, 1]), None, torch.ones(4, 3))",
        "aggregate: indptr falls",
    ),
    "memory": (
        "dispatch.run(native.scan_range, torch.arange(64), 8, 65, 0, 64)",
        "AddressSanitizer: heap-buffer-overflow",
    ),
    "arithmetic": (
        "dispatch.run(native.scan_range, torch.arange(64).view(torch.uint8)[4:-4], 8, 2, 0, 64)",
        "runtime error: load of misaligned address",
    ),
}


@pytest.fixture(scope="module")
def sanitized() -> dict[str, str]:
    """The environment for the sanitized kernels, once they are built."""
    subprocess.run(["make", "build/sanitized/.built"], cwd=ROOT, check=True, capture_output=True)
    return environment()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("fault", "report"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_ends_with_a_report(sanitized, fault, report):
    ended = subprocess.run(
        [sys.executable, "-c", f"{BEGIN}\n{fault}"],
        cwd=ROOT,
        env=sanitized,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert report in ended.stderr
