"""`halowire inspect` of shard folders whose manifest is not what it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import SMALL


@pytest.fixture
def change(halowire):
    """Cut a graph into ``shards`` and edit the manifest: None takes a key away."""
    assert halowire("partition", SMALL, "--parts", "2", "--out", "shards", "--quiet").code == 0
    path = Path("shards/manifest.json")

    def write(key: str, value: Any) -> None:
        manifest = json.loads(path.read_text())
        manifest = {name: old for name, old in (manifest | {key: value}).items() if old is not None}
        path.write_text(json.dumps(manifest))

    return write


def test_without_quality_the_rest_is_shown(halowire, change):
    whole = halowire("inspect", "shards")
    assert whole.code == 0 and "\ncut  " in whole.out
    change("quality", None)
    said = halowire("inspect", "shards")
    assert said.code == 0 and said.err == ""
    assert said.out.splitlines() == [*whole.out.splitlines()[:3], "quality    not in the manifest"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("parts", 7, "its parts is 7"),
        ("parts", [1, 2], "its parts[0] is 1"),
        ("num_nodes", "many", "its num_nodes is 'many'"),
        ("quality", 7, "quality"),
        ("quality", {"num_parts": 2}, "quality"),
    ],
)
def test_damage_is_one_line_and_exit_code_2(halowire, change, key, value, message):
    change(key, value)
    said = halowire("inspect", "shards")
    assert said.code == 2 and said.out == ""
    assert said.err.startswith("halowire: error: ") and said.err.count("\n") == 1
    assert message in said.err
