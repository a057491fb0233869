"""Shards on disk: what is read is what was cut, and damage is noticed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from halowire import files as replacing
from halowire.errors import InputError
from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.partitioning import Partition, Shard, cut, measure, partition, read_manifest, read_shard, write_shards
from tests.support.awkward_graphs import awkward
from tests.support.rewritten_shards import change_manifest


def assert_same(one: object, other: object) -> None:
    """Equal to the last bit, tensors and matrices included."""
    if isinstance(one, Tensor):
        assert isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    elif isinstance(one, Csr | Shard):
        for item in fields(one):
            assert_same(getattr(one, item.name), getattr(other, item.name))
    else:
        assert one == other


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    graph = awkward()
    return write_shards(graph, partition(graph, 2, "random"), tmp_path / "shards")


@pytest.mark.parametrize("options", [{}, {"weighted": True, "sparse": True}, {"multi_label": True}])
@pytest.mark.parametrize("parts", [1, 3])
def test_reading_gives_back_what_was_cut(tmp_path: Path, parts: int, options: dict[str, bool]) -> None:
    graph = awkward(**options)
    owners = partition(graph, parts, seed=3)
    folder = write_shards(graph, owners, tmp_path / "deep" / "shards")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rank, shard in enumerate(cut(graph, owners)):
            for verify in (True, False):
                assert_same(shard, read_shard(folder, rank, verify=verify))


def test_a_graph_with_nothing_but_nodes(tmp_path: Path) -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 3)
    folder = write_shards(graph, partition(graph, 3), tmp_path / "shards")
    for rank, shard in enumerate(cut(graph, partition(graph, 3))):
        assert_same(shard, read_shard(folder, rank))


def test_the_manifest_tells_how_it_was_made(stored: Path) -> None:
    manifest, graph = read_manifest(stored), awkward()
    assert (manifest["graph"], manifest["num_nodes"], manifest["num_edges"]) == ("awkward", 30, graph.num_edges)
    assert (manifest["method"], manifest["seed"], manifest["num_parts"]) == ("random", 0, 2)
    assert set(manifest["versions"]) == {"halowire", "torch", "numpy", "pymetis"}
    owners = partition(graph, 2, "random")
    shards = cut(graph, owners)
    covered = [sum(shard.cover_counts()) for shard in shards]
    counts = sum(shard.num_halo for shard in shards), sum(covered)
    assert manifest["quality"] == measure(graph, owners).with_cover(covered, counts).to_json()
    assert all(entry["bytes"] > 0 for part in manifest["parts"] for entry in part["shard"]["files"].values())


def test_a_worker_reads_only_its_own_part(stored: Path) -> None:
    for file in (stored / "part-0").iterdir():
        file.unlink()
    assert read_shard(stored, 1).rank == 1


def test_changing_a_tensor_leaves_the_file_alone(stored: Path) -> None:
    shard = read_shard(stored, 0)
    before = shard.degree.clone()
    shard.degree.add_(1)
    assert_same(before, read_shard(stored, 0).degree)


def test_multi_label_takes_one_byte_per_label(tmp_path: Path) -> None:
    graph = awkward(multi_label=True)
    folder = write_shards(graph, partition(graph, 1), tmp_path / "shards")
    assert read_manifest(folder)["parts"][0]["shard"]["files"]["y"]["dtype"] == "uint8"
    assert_same(read_shard(folder, 0).y, graph.y)


def test_inductive_shards_are_those_of_the_training_subgraph(tmp_path: Path) -> None:
    graph = awkward(weighted=True)
    owners = partition(graph, 3, "random")
    folder = write_shards(graph, owners, tmp_path / "shards", inductive=True)
    assert graph.train_mask is not None
    kept = graph.train_mask.nonzero().flatten()
    expected = cut(graph.subgraph(graph.train_mask), replace(owners, owner=owners.owner[kept]))
    for rank, shard in enumerate(expected):
        assert_same(replace(shard, rows=kept[shard.rows]), read_shard(folder, rank, train=True))
        assert read_shard(folder, rank).num_nodes == 30


def test_a_part_may_have_no_training_node(tmp_path: Path) -> None:
    graph = awkward()
    assert graph.train_mask is not None
    folder = write_shards(graph, Partition(graph.train_mask.long(), 2), tmp_path / "shards", inductive=True)
    assert read_shard(folder, 0, train=True).num_owned == 0


def test_inductive_needs_training_nodes(tmp_path: Path) -> None:
    graph = replace(awkward(), train_mask=None)
    with pytest.raises(InputError, match="give it a train_mask"):
        write_shards(graph, partition(graph, 2), tmp_path / "shards", inductive=True)
    assert list(tmp_path.iterdir()) == []


def test_transductive_shards_have_no_training_subgraph(stored: Path) -> None:
    with pytest.raises(InputError, match="no training subgraph"):
        read_shard(stored, 0, train=True)


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "renamed twice"])
def test_a_shard_folder_is_replaced(stored: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool) -> None:
    if not exchange:
        monkeypatch.setattr(replacing, "_exchange", lambda one, other: False)
    mapped = read_shard(stored, 1)
    before = mapped.inner.to_dense()
    write_shards(awkward(seed=9), partition(awkward(seed=9), 3), stored)
    assert read_manifest(stored)["num_parts"] == 3
    assert_same(mapped.inner.to_dense(), before)
    assert [path.name for path in stored.parent.iterdir()] == ["shards"]


def test_an_empty_folder_is_used_and_others_are_refused(tmp_path: Path) -> None:
    graph = awkward()
    (tmp_path / "empty").mkdir()
    write_shards(graph, partition(graph, 2), tmp_path / "empty")
    for name in ("thesis", "file"):
        (tmp_path / name).mkdir() if name == "thesis" else (tmp_path / name).write_text("precious")
    (tmp_path / "thesis" / "manifest.json").write_text('{"name": "somebody else\'s"}')
    for name in ("thesis", "file"):
        with pytest.raises(InputError, match="exists and is not a folder of shards"):
            write_shards(graph, partition(graph, 2), tmp_path / name)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_failure_leaves_the_old_folder_and_no_litter(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(folder: Path, manifest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("halowire.partitioning.store.write_manifest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_shards(awkward(), partition(awkward(), 3), stored)
    assert read_manifest(stored)["num_parts"] == 2
    assert [path.name for path in stored.parent.iterdir()] == ["shards"]


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip_last_byte, "does not match its checksum"),
        (truncate, "bytes, but the manifest says"),
        (Path.unlink, "missing"),
    ],
)
@pytest.mark.parametrize("name", ["x", "inner_indices", "halo_ids", "train_mask"])
def test_damaged_arrays_are_noticed(stored: Path, name: str, damage: Callable[[Path], None], message: str) -> None:
    damage(stored / "part-1" / f"{name}.npy")
    with pytest.raises(InputError, match=message):
        read_shard(stored, 1)
    assert read_shard(stored, 0).rank == 0


def test_a_foreign_array_of_the_same_size_is_noticed_without_checksums(stored: Path) -> None:
    (stored / "part-0" / "rows.npy").write_bytes(b"\x80" * (stored / "part-0" / "rows.npy").stat().st_size)
    with pytest.raises(InputError, match="cannot be read"):
        read_shard(stored, 0, verify=False)
    (stored / "part-1" / "rows.npy").write_bytes((stored / "part-1" / "degree.npy").read_bytes())
    with pytest.raises(InputError, match="rows"):
        read_shard(stored, 1, verify=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "format version 99"),
        ({"version": "\n"}, r"format version '\\n'"),
        ({"format": "other"}, "expected format 'halowire-shards'"),
        ({"num_parts": 3}, "does not list all its parts"),
        ({"parts": [{}, {}]}, r"manifest\.json is damaged: its parts\[0\] has no shard"),
        ({"parts": ["a", "b"]}, r"manifest\.json is damaged: its parts\[0\] is 'a'"),
        ({"parts": 7}, r"manifest\.json is damaged: its parts is 7, expected a list"),
        ({"parts": {"0": {}, "1": {}}}, r"its parts is .*, expected a list"),
        ({"parts": [{"shard": []}, {"shard": []}]}, r"its parts\[0\]\.shard is \[\]"),
        ({"num_nodes": "30"}, "its num_nodes is '30', expected a whole number"),
        ({"num_edges": -1}, "its num_edges is -1, expected a whole number"),
        ({"num_parts": True}, "its num_parts is True, expected a whole number"),
        ({"num_parts": 2.0}, r"its num_parts is 2\.0, expected a whole number"),
        ({"num_parts": 0, "parts": []}, "its num_parts is 0, expected at least 1"),
        ({"graph": None}, "its graph is None, expected a text"),
        ({"multi_label": 1}, "its multi_label is 1, expected true or false"),
        ({"inductive": True}, r"its parts\[0\] has no train"),
    ],
)
def test_damaged_manifests_are_noticed(stored: Path, change: dict[str, object], message: str) -> None:
    change_manifest(stored, lambda manifest: manifest.update(change))
    with pytest.raises(InputError, match=message):
        read_shard(stored, 0)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_nodes", [30], "expected a whole number"),
        ("num_boundary", None, "expected a whole number"),
        ("send_counts", 7, "expected a list"),
        ("recv_counts", [0, "x"], "expected a whole number"),
        ("counts", ["train"], "expected an object"),
        ("files", 3, "expected an object"),
        ("files", {"x": 3}, "expected an object"),
        ("files", {"x": {"bytes": 1, "crc32": 2, "dtype": "int64", "shape": 4}}, "expected a list"),
        ("files", {"../x": {"bytes": 1, "crc32": 2, "dtype": "int64", "shape": [4]}}, "expected names of arrays"),
    ],
)
def test_entries_of_the_wrong_type_are_noticed(stored: Path, key: str, value: object, message: str) -> None:
    change_manifest(stored, lambda manifest: manifest["parts"][1]["shard"].update({key: value}))
    with pytest.raises(InputError, match=rf"its parts\[1\]\.shard\.{key}.*{message}") as caught:
        read_manifest(stored)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"num_classes": 1_000_000}, {"num_classes": 5}, {"num_classes": 4.0}, {"seed": 1}, {"graph": "other"},
        {"multi_label": True}, {"method": "range"}, {"quality": None}, {"crc32": 0}, {"crc32": True}, {"crc32": None},
        {"more": 1},
    ],
)  # fmt: skip
def test_a_manifest_that_is_not_as_it_was_written_is_refused(stored: Path, change: dict[str, object]) -> None:
    path = stored / "manifest.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps(before | change))
    words = r"does not match its own checksum.*: cut the graph again with `halowire partition`"
    for read in (lambda: read_manifest(stored), lambda: read_shard(stored, 0, verify=False)):
        with pytest.raises(InputError, match=words) as error:
            read()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["crc32", "num_classes", "versions", "quality"])
def test_a_manifest_that_lacks_what_was_written_is_refused(stored: Path, name: str) -> None:
    path = stored / "manifest.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in before.items() if key != name}))
    with pytest.raises(InputError, match="does not match its own checksum"):
        read_manifest(stored)
    path.write_text(json.dumps(dict(reversed(before.items()))))  # the order of the names says nothing
    assert read_manifest(stored) == before


def test_a_manifest_of_an_earlier_version_is_refused(stored: Path) -> None:
    """Folders of version 2 have no checksum over their manifest."""
    path = stored / "manifest.json"
    old = {name: value for name, value in json.loads(path.read_text()).items() if name != "crc32"}
    path.write_text(json.dumps(old | {"version": 2}))
    with pytest.raises(InputError, match=r"has format version 2, .* reads version 3: cut the graph again") as error:
        read_manifest(stored)
    assert "\n" not in str(error.value)


def test_values_at_the_edge_of_what_can_be_read_are_refused(stored: Path) -> None:
    text = (stored / "manifest.json").read_text().rstrip().removesuffix("}")
    for depth in range(900, 1000):
        (stored / "manifest.json").write_text(text + ', "more": ' + "[" * depth + "]" * depth + "}")
        with pytest.raises(InputError, match=r"nested too deeply|does not match its own checksum"):
            read_manifest(stored)


def test_manifest_keys_and_sizes_must_fit(stored: Path) -> None:
    path = stored / "manifest.json"
    change_manifest(stored, lambda manifest: manifest["parts"][0]["shard"]["send_counts"].__setitem__(1, 15))
    with pytest.raises(
        InputError, match=r"part 0 sends to part 1 \(rows 15\) what part 1 does not receive \(rows 14\)"
    ):
        read_shard(stored, 0)
    change_manifest(stored, lambda manifest: manifest.pop("graph"))
    with pytest.raises(InputError, match="has no graph"):
        read_manifest(stored)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read_manifest(stored)


def test_folders_that_hold_no_shards(tmp_path: Path, stored: Path) -> None:
    with pytest.raises(InputError, match="is not a shard folder"):
        read_manifest(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has parts 0\.\.1, but part 2 was asked for"):
        read_shard(stored, 2)
