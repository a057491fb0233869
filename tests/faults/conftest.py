"""Tests of faults leave no process behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.started import end_all


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    end_all()
