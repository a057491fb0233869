"""Collects the results of the kernels' verification, and prints them as a table.

`make test-gpu-kernels` runs this folder twice, first with ``TRITON_INTERPRET=1``. pytest's cache carries the results of
the first run to the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from halowire.kernels.triton_devices import interpreted
from tests.support.gpu.table import KEY, Results, in_rows

# What is collected is imported, and without triton it cannot be.
collect_ignore_glob = [] if find_spec("triton") else ["test_*.py"]


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    """What was found so far, by case; the run that compiles keeps what the one that interprets found."""
    known: Results = {} if interpreted() else request.config.cache.get(KEY, {})
    yield known
    request.config.cache.set(KEY, known)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table once all is known."""
    known: Results = config.cache.get(KEY, {})
    ran = any("tests/gpu/test_verified.py" in report.nodeid for report in terminalreporter.getreports("passed"))
    if ran:
        terminalreporter.section("Triton kernels")
        terminalreporter.write_line("\n".join(in_rows(known)))
