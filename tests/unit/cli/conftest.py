"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from halowire.cli.main import main

SMALL = "sbm:nodes=60,edges=300,features=4,classes=3,seed=0"
FAST = ("--epochs", "2", "--model.hidden", "8", "--threads", "1", "--quiet")


@dataclass(frozen=True)
class Said:
    """What a call of the command gave back."""

    code: int
    out: str
    err: str


@pytest.fixture
def halowire(capsys, monkeypatch, tmp_path) -> Callable[..., Said]:
    """``halowire("train", ...)`` calls the command in this process, inside an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*words: Any) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Said(code, *capsys.readouterr())

    return call
