"""Made-up run folders for the tests of the report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_run import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A complete run: 2 ranks, 60 epochs."""
    return write_run(tmp_path / "demo")
