"""Shards whose checksums are right and whose content is not: refused when they are opened, by name."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from halowire.errors import InputError
from halowire.graph import block_model
from halowire.partitioning import partition, read_shard, write_shards

Change = Callable[[np.ndarray], np.ndarray]


def put(place: object, value: float) -> Change:
    """Put ``value`` at ``place`` of an array."""

    def change(values: np.ndarray) -> np.ndarray:
        values[place] = value
        return values

    return change


CASES: dict[str, tuple[str, Change]] = {
    "index past the end": ("inner_indices", put(3, 10**6)),
    "negative index": ("halo_indices", put(0, -1)),
    "falling indptr": ("inner_indptr", put(5, 0)),
    "indptr past the end": ("halo_indptr", put(-1, 10**6)),
    "row to send that is not there": ("send_index", put(-1, 10**6)),
    "class that is not there": ("y", put(2, 77)),
    "degree below zero": ("degree", put(0, -1)),
    "narrower features": ("x", lambda values: values[:, :-1].copy()),
    "fewer rows": ("ids", lambda values: values[:-1].copy()),
    "mask of another type": ("train_mask", lambda values: values.astype(np.float32)),
    "features of another type": ("x", lambda values: values.astype(np.float64)),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    graph = block_model(120, 700, 6, 3, seed=1)
    return write_shards(graph, partition(graph, 2, method="random"), tmp_path_factory.mktemp("whole") / "shards")


def spoil(folder: Path, name: str, change: Change) -> None:
    """Change an array of part 0, and make its entry in the manifest fit the file."""
    file = folder / "part-0" / f"{name}.npy"
    values = change(np.load(file))
    np.save(file, values)
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = manifest["parts"][0]["shard"]["files"][name]
    entry |= {"bytes": file.stat().st_size, "crc32": zlib.crc32(file.read_bytes())}
    entry |= {"dtype": str(values.dtype), "shape": list(values.shape)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("case", CASES)
def test_bad_content_is_refused_by_name(whole, tmp_path, case):
    name, change = CASES[case]
    shutil.copytree(whole, tmp_path / "shards")
    spoil(tmp_path / "shards", name, lambda values: values)
    read_shard(tmp_path / "shards", 0)  # the change itself is refused, not how it was made
    spoil(tmp_path / "shards", name, change)
    with pytest.raises(InputError) as caught:
        read_shard(tmp_path / "shards", 0)
    assert name in str(caught.value) and "again" in str(caught.value), str(caught.value)


def test_parts_of_two_cuts_do_not_mix(whole, tmp_path):
    graph = block_model(120, 700, 6, 3, seed=1)
    other = write_shards(graph, partition(graph, 2, method="random", seed=9), tmp_path / "other")
    shutil.copytree(whole, tmp_path / "mixed")
    shutil.rmtree(tmp_path / "mixed" / "part-0")
    shutil.copytree(other / "part-0", tmp_path / "mixed" / "part-0")
    manifest = json.loads((whole / "manifest.json").read_text())
    manifest["parts"][0] = json.loads((other / "manifest.json").read_text())["parts"][0]
    (tmp_path / "mixed" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="partition the graph again"):
        read_shard(tmp_path / "mixed", 0)
        read_shard(tmp_path / "mixed", 1)
