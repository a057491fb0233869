"""`halowire inspect`, and what else reads shard folders, where the manifest is not what it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rewritten_shards import put_manifest
from tests.unit.cli.conftest import FAST, SMALL


@pytest.fixture
def change(halowire):
    """Cut a graph into ``shards`` and edit the manifest: None takes a key away."""
    assert halowire("partition", SMALL, "--parts", "2", "--out", "shards", "--quiet").code == 0
    path = Path("shards/manifest.json")

    def write(key: str, value: Any) -> None:
        manifest = json.loads(path.read_text())
        put_manifest(path.parent, {name: old for name, old in (manifest | {key: value}).items() if old is not None})

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


def test_every_verb_refuses_a_manifest_that_was_changed(halowire):
    assert halowire("train", SMALL, "--out", "run", *FAST).code == 0
    path = Path("run/shards/manifest.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_classes": 1_000_000}))
    train = ("train", "run/shards", "--out", "other", *FAST)
    resume = ("train", SMALL, "--out", "run", *FAST, "--resume")
    for words in (("inspect", "run/shards"), train, resume, ("predict", "run", "--out", "out.npy")):
        said = halowire(*words)
        assert said.code == 2 and said.out == "" and said.err.count("\n") == 1, (words, said)
        assert "manifest.json does not match its own checksum" in said.err, words
    assert not Path("other").exists() and not Path("out.npy").exists()
