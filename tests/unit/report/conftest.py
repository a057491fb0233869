"""A made-up run folder and a stream that says it is a terminal, for the tests of the report."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.support.fake_run import write_run


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A complete run: 2 ranks, 60 epochs."""
    return write_run(tmp_path / "demo")


@pytest.fixture
def terminal() -> Terminal:
    """What a person's terminal is given."""
    return Terminal()
