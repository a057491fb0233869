"""Shard folders that are damaged, with wrong and with right checksums: a shard that is safe to use, or one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.errors import InputError
from halowire.graph import split_links
from halowire.kernels import Csr
from halowire.partitioning import partition, read_manifest, read_shard, write_shards
from halowire.partitioning.links import read_links, write_links
from tests.support.awkward_graphs import awkward
from tests.support.fuzzing import changed, damage, examples, read_or_refused
from tests.support.rewritten_shards import change_manifest, enter, put_manifest

fuzz = settings(deadline=None, max_examples=2 * examples())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards, with the pairs of link prediction beside them; every example damages one file and mends it again."""
    graph = awkward(weighted=True, sparse=True)
    place = write_shards(graph, partition(graph, 2, "random"), tmp_path_factory.mktemp("fuzz") / "shards")
    write_links(split_links(graph.edge_index(), graph.num_nodes, 0.2, 0.2, 3, 0), place)
    return place


def safe(folder: Path) -> None:
    """A shard that was read can be computed with: nothing in it points outside."""
    shard = read_or_refused(lambda: read_shard(folder, 1))
    if shard is None:
        return
    for matrix in (shard.inner, shard.halo, shard.x):
        assert isinstance(matrix, Csr)
        assert int(matrix.indptr[0]) == 0 and int(matrix.indptr[-1]) == matrix.nnz
        assert bool((matrix.indptr.diff() >= 0).all())
        assert not matrix.nnz or 0 <= int(matrix.indices.min()) <= int(matrix.indices.max()) < matrix.num_cols
        assert matrix.weight is None or bool(matrix.weight.isfinite().all())
    assert bool((shard.send_index < shard.num_boundary).all()) and bool((shard.send_index >= 0).all())
    assert torch.cat([shard.ids, shard.halo_ids]).unique().numel() == shard.num_owned + shard.num_halo
    assert shard.y is not None and int(shard.y.max()) < shard.num_classes


@fuzz
@given(st.data())
def test_any_manifest(folder, data):
    """The manifest has another value somewhere, with a checksum that fits, and with the one of before."""
    path = folder / "manifest.json"
    good = path.read_text()
    try:
        values = data.draw(changed(json.loads(good)))
        put_manifest(folder, values)
        safe(folder)
        path.write_text(json.dumps(values))
        if json.dumps(values, sort_keys=True) != json.dumps(json.loads(good), sort_keys=True):
            with pytest.raises(InputError):
                read_manifest(folder)
        path.write_bytes(data.draw(damage(good.encode())))
        read_or_refused(lambda: read_manifest(folder))
    finally:
        path.write_text(good)


@fuzz
@given(st.data(), st.booleans())
def test_any_bytes_of_an_array(folder, data, mended):
    """With ``mended`` the manifest has the size and the checksum of the damaged file."""
    path = data.draw(st.sampled_from(sorted((folder / "part-1").glob("*.npy"))))
    good, manifest = path.read_bytes(), (folder / "manifest.json").read_text()
    try:
        path.write_bytes(data.draw(damage(good)))
        if mended:
            _enter_bytes(folder, path)
        safe(folder)
        read_or_refused(lambda: read_shard(folder, 1, verify=False))
    finally:
        path.write_bytes(good)
        (folder / "manifest.json").write_text(manifest)


def _enter_bytes(folder: Path, path: Path) -> None:
    from halowire.partitioning.array_files import checksum

    sizes = {"bytes": path.stat().st_size, "crc32": checksum(path)}
    change_manifest(folder, lambda m: m["parts"][1]["shard"]["files"][path.stem].update(sizes))


@fuzz
@given(st.data())
def test_any_values_of_an_array(folder, data):
    """The file is a good one, of the right type and length, and its entry in the manifest is right."""
    path = data.draw(st.sampled_from(sorted((folder / "part-1").glob("*.npy"))))
    good, manifest = path.read_bytes(), (folder / "manifest.json").read_text()
    array = np.load(path)
    try:
        view = array.view(np.uint8) if array.dtype == np.bool_ else array
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, max(0, array.size - 1)))
            value = data.draw(st.sampled_from([0, 1, 2, 7, 15, 30, 100, 255, 2**31 - 1, -1, -(2**31), 2**62]))
            if array.size:
                with np.errstate(all="ignore"):
                    view.flat[at] = np.array(value, np.int64).astype(view.dtype)
        np.save(path, array)
        enter(folder, 1, path.stem)
        safe(folder)
    finally:
        path.write_bytes(good)
        (folder / "manifest.json").write_text(manifest)


@fuzz
@given(st.data())
def test_any_links(folder, data):
    """The record of the links is damaged, or one of the arrays beside it."""
    arrays = sorted((folder / "links").rglob("*.npy"))
    path = data.draw(st.sampled_from([folder / "links.json"] * len(arrays) + arrays))
    good = path.read_bytes()
    try:
        record = path.name == "links.json" and data.draw(st.booleans())
        path.write_bytes(
            json.dumps(data.draw(changed(json.loads(good)))).encode() if record else data.draw(damage(good))
        )
        links = read_or_refused(lambda: read_links(folder, 1))
        assert links is None or bool((links.owner[links.train[0]] == 1).all())
    finally:
        path.write_bytes(good)


def test_the_folder_is_whole_again(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert read_shard(copy, 1).rank == 1 and read_links(copy, 1).num_train > 0
