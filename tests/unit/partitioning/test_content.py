"""Shards with bad content and good checksums: every kind is refused, with the file, the place and the way out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from halowire.errors import InputError
from halowire.partitioning import array_files, cut, partition, read_shard, write_shards
from tests.support.awkward_graphs import awkward
from tests.support.rewritten_shards import change_manifest, enter, put, rewrite

WAY_OUT = "partition the graph again"
PIECE_BYTES = 1 << 14
"""Bytes that one test reads at once, so that a small array has several pieces."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of shards of several kinds of graphs, which no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    kinds: dict[str, dict[str, bool]] = {
        "plain": {}, "weighted": {"weighted": True}, "sparse": {"sparse": True}, "several": {"multi_label": True},
    }  # fmt: skip
    for name, options in kinds.items():
        graph = awkward(**options)
        write_shards(graph, partition(graph, 2, "random"), folder / name)
    graph = awkward().as_regression()
    write_shards(graph, partition(graph, 2, "random"), folder / "values")
    graph = awkward()
    write_shards(graph, partition(graph, 2, "random"), folder / "inductive", inductive=True)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture
def shards(kept: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """``shards("plain")`` is a copy of one of the folders."""
    return lambda name: shutil.copytree(kept[name], tmp_path / name)


def refused(folder: Path, message: str, rank: int = 1, train: bool = False) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_shard(folder, rank, train=train)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value) and WAY_OUT in str(caught.value)


def shorter(array: Any) -> Any:
    return array[:-1]


Change = Callable[[Any], Any]
VALUES: dict[str, tuple[str, str, Change, str]] = {
    "index too large": ("plain", "inner_indices", put(3, 15), "inner_indices.npy holds 15 at place 3, expected whole"),
    "index below zero": ("plain", "halo_indices", put(5, -1), "halo_indices.npy holds -1 at place 5, expected whole"),
    "huge index": ("plain", "inner_indices", put(0, 2**31 - 1), "holds 2147483647 at place 0"),
    "falling indptr": ("plain", "inner_indptr", put(4, 0), "inner_indptr.npy holds 0 at place 4, expected .* rise"),
    "indptr below zero": ("plain", "halo_indptr", put(0, -1), "halo_indptr.npy holds -1 at place 0"),
    "indptr beyond the end": ("plain", "halo_indptr", put(-1, 999), "halo_indptr.npy runs from 0 to 999, expected 0"),
    "indptr begins late": ("plain", "inner_indptr", put(0, 1), "inner_indptr.npy runs from 1 to"),
    "send index too large": ("plain", "send_index", put(0, 15), "send_index.npy holds 15 at place 0"),
    "send index below zero": ("plain", "send_index", put(2, -5), "send_index.npy holds -5 at place 2"),
    "row too large": ("plain", "rows", put(0, 30), "rows.npy holds 30 at place 0, expected whole numbers from 0 to 29"),
    "rows in another order": ("plain", "rows", np.flip, "rows.npy holds .* that rise within boundary and"),
    "id below zero": ("plain", "ids", put(1, -7), "ids.npy holds -7 at place 1"),
    "halo id below zero": ("plain", "halo_ids", put(1, -7), "halo_ids.npy holds -7 at place 1"),
    "degree is NaN": ("plain", "degree", put(2, np.nan), "degree.npy holds nan at place 2, expected finite"),
    "degree is infinite": ("plain", "symmetric_degree", put(2, np.inf), "symmetric_degree.npy holds inf at place 2"),
    "degree below zero": ("plain", "degree", put(0, -1), "degree.npy holds -1.0 at place 0, expected .* >= 0"),
    "weight is NaN": ("weighted", "inner_weight", put(9, np.nan), "inner_weight.npy holds nan at place 9"),
    "weight below zero": ("weighted", "halo_weight", put(9, -0.5), "halo_weight.npy holds -0.5 at place 9"),
    "label too large": ("plain", "y", put(0, 4), "y.npy holds 4 at place 0, expected whole numbers from -1 to 3"),
    "label too small": ("plain", "y", put(0, -2), "y.npy holds -2 at place 0"),
    "label missing": ("plain", "y", lambda y: np.full_like(y, -1), "y.npy holds -1 for row .*, expected a label"),
    "value missing": ("values", "y", put(slice(None), np.nan), r"y.npy holds \[nan\] for row .*, expected a label"),
    "several labels": ("several", "y", put((0, 1), 2), "y.npy holds 2 at place 1, expected whole numbers from 0 to 1"),
    "mask of another byte": ("plain", "train_mask", lambda m: put(3, 7)(m.view(np.uint8)), "train_mask.npy holds"),
    "mask too full": ("plain", "val_mask", put(slice(None), True), "val_mask.npy marks 15 nodes, expected at most 7"),
    "feature's index too large": ("sparse", "x_indices", put(0, 6), "x_indices.npy holds 6 at place 0"),
    "feature's indptr falls": ("sparse", "x_indptr", put(5, 0), "x_indptr.npy holds 0 at place 5"),
    "feature is NaN": ("sparse", "x_weight", put(4, np.nan), "x_weight.npy holds nan at place 4"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "change", "message"), VALUES.values(), ids=VALUES.keys())
def test_values_out_of_their_range(shards, kind, name, change, message) -> None:
    folder = shards(kind)
    rewrite(folder, 1, name, change)
    refused(folder, message)
    assert read_shard(folder, 0).rank == 0, "the other part is good"


SHAPES: dict[str, tuple[str, str, Change, str]] = {
    "narrower features": ("plain", "x", lambda x: x[:, :5].copy(), r"x.npy holds float32 \[15, 5\], expected float32 "),
    "wider features": ("plain", "x", lambda x: np.pad(x, ((0, 0), (0, 1))), r"x.npy holds float32 \[15, 7\]"),
    "fewer features": ("plain", "x", shorter, r"x.npy holds float32 \[14, 6\], expected float32 \[15, 6\]"),
    "features of another type": ("plain", "x", lambda x: x.astype(np.float64), "x.npy holds float64"),
    "mask of another type": ("plain", "train_mask", lambda m: m.astype(np.int64), "train_mask.npy holds int64"),
    "mask of bytes": ("plain", "test_mask", lambda m: m.astype(np.uint8), "test_mask.npy holds uint8"),
    "fewer masked": ("plain", "train_mask", shorter, r"train_mask.npy holds bool \[14\], expected bool \[15\]"),
    "labels of another type": ("plain", "y", lambda y: y.astype(np.int32), "y.npy holds int32"),
    "labels of another shape": ("plain", "y", lambda y: y[:, None].copy(), r"y.npy holds int64 \[15, 1\]"),
    "fewer rows": ("plain", "ids", shorter, r"ids.npy holds int64 \[14\], expected int64 \[15\]"),
    "fewer degrees": ("plain", "symmetric_degree", shorter, "symmetric_degree.npy holds float32"),
    "shorter indptr": ("plain", "inner_indptr", shorter, r"inner_indptr.npy holds int64 \[15\], expected int64 \[16\]"),
    "indptr of another type": ("plain", "inner_indptr", lambda p: p.astype(np.int32), "inner_indptr.npy holds int32"),
    "indices of another type": ("plain", "halo_indices", lambda i: i.astype(np.int16), "halo_indices.npy holds int16"),
    "fewer weights": ("weighted", "inner_weight", shorter, "inner_weight.npy holds float32"),
    "fewer sent": ("plain", "send_index", shorter, r"send_index.npy holds int64 \[12\], expected int64 \[13\]"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "change", "message"), SHAPES.values(), ids=SHAPES.keys())
def test_arrays_of_another_type_or_size_are_refused_also_without_checksums(shards, kind, name, change, message) -> None:
    folder = shards(kind)
    rewrite(folder, 1, name, change)
    refused(folder, message)
    with pytest.raises(InputError, match=message):
        read_shard(folder, 1, verify=False)


def test_a_node_that_is_held_twice(shards) -> None:
    folder = shards("plain")
    shard = read_shard(folder, 1)
    rewrite(folder, 1, "ids", put(-1, int(shard.ids[0])))
    refused(folder, f"ids.npy holds node {int(shard.ids[0])}, twice, expected every node once")
    rewrite(folder, 1, "ids", put(-1, int(shard.halo_ids[0])))
    refused(folder, f"halo_ids.npy holds node {int(shard.halo_ids[0])}, which the part owns itself")
    rewrite(folder, 1, "ids", put(-1, int(shard.ids[-1])))
    rewrite(folder, 1, "halo_ids", put(0, int(shard.halo_ids[1])))
    refused(folder, f"halo_ids.npy holds node {int(shard.halo_ids[1])}, twice")
    rewrite(folder, 1, "halo_ids", put(slice(0, 2), 2**62))
    refused(folder, f"halo_ids.npy holds node {2**62}, twice")


def test_rows_that_go_to_another_node_than_expected(shards) -> None:
    folder = shards("plain")
    rewrite(folder, 0, "send_index", lambda a: np.roll(a, 1))
    refused(folder, r"send_index.npy names other nodes for what goes to part 1 \(checksum", rank=0)
    assert read_shard(folder, 1).rank == 1
    rewrite(folder, 1, "halo_ids", lambda a: np.roll(a, 1))
    refused(folder, r"halo_ids.npy names other nodes for what comes from part 0 \(checksum")


def test_a_boundary_of_another_size(shards) -> None:
    folder = shards("plain")
    boundary = read_shard(folder, 1).num_boundary
    change_manifest(folder, lambda m: m["parts"][1]["shard"].update(num_boundary=boundary - 1))
    refused(folder, rf"(rows.npy holds .* rise within|send_index.npy holds {boundary - 1} at place)")
    change_manifest(folder, lambda m: m["parts"][1]["shard"].update(num_boundary=16))
    refused(folder, "part-1 has 16 boundary rows by the manifest, expected at most its 15")
    change_manifest(folder, lambda m: m["parts"][1]["shard"].update(num_boundary=15))
    refused(folder, r"(rows.npy holds .* rise within|send_index.npy sends row \d+ to no part)")


def test_wrong_counts_in_the_manifest(shards) -> None:
    folder = shards("plain")

    def more(name: str, part: int) -> None:
        change_manifest(folder, lambda m: m["parts"][part]["shard"][name].__setitem__(1 - part, 15))

    more("send_counts", 0)
    refused(folder, r"part 0 sends to part 1 \(rows 15\) what part 1 does not receive \(rows 14\)")
    more("recv_counts", 1)
    refused(folder, r"halo_ids.npy holds 14 nodes, but the manifest says 15")


def test_fewer_nodes_to_learn_than_a_part_marks(shards) -> None:
    folder = shards("plain")
    for part in (0, 1):
        change_manifest(folder, lambda m, part=part: m["parts"][part]["shard"]["counts"].update(train=0))
    refused(folder, "train_mask.npy marks .* nodes, expected at most 0 of all parts")


WHOLE: dict[str, tuple[str, Any, str]] = {
    "more nodes": ("num_nodes", 31, "part 0 says num_nodes 30, expected 31: are the parts of two graphs"),
    "other features": ("num_features", 7, "part 0 says num_features 6, expected 7"),
    "more edges": ("num_edges", 1000, "its parts hold .* edges, expected all 1000, each once"),
    "too many classes": ("num_classes", 10**12, r"its num_classes is 1000000000000, expected at most"),
    "fewer classes": ("num_classes", 2, "y.npy holds .* expected whole numbers from -1 to 1"),
    "several labels": ("multi_label", True, r"y.npy holds int64 \[15\], expected uint8 \[15, 4\]"),
    "values": ("regression", True, r"y.npy holds int64 \[15\], expected float32 \[15, 4\]"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "value", "message"), WHOLE.values(), ids=WHOLE.keys())
def test_a_manifest_that_tells_of_another_graph(shards, name, value, message) -> None:
    folder = shards("plain")
    change_manifest(folder, lambda manifest: manifest.update({name: value}))
    refused(folder, message)


def test_an_array_that_is_not_listed_or_one_too_many(shards) -> None:
    folder = shards("plain")
    shutil.copy(folder / "part-1" / "y.npy", folder / "part-1" / "z.npy")
    enter(folder, 1, "z")
    refused(folder, "z.npy is no array of such a folder, expected one of ids, rows")
    change_manifest(folder, lambda manifest: manifest["parts"][1]["shard"]["files"].pop("z"))
    change_manifest(folder, lambda manifest: manifest["parts"][1]["shard"]["files"].pop("degree"))
    refused(folder, "degree.npy is not listed as a list in the manifest")


def test_masks_without_labels(shards) -> None:
    folder = shards("plain")
    change_manifest(folder, lambda manifest: manifest["parts"][1]["shard"]["files"].pop("y"))
    refused(folder, "train_mask.npy marks nodes, but .*y.npy is not there")


def test_parts_of_two_cuts(tmp_path: Path, shards) -> None:
    """The files and the entries of a part come from another cut of the same graph, so that all of them fit."""
    graph, folder = awkward(), shards("plain")
    other = write_shards(graph, partition(graph, 2, "random", seed=5), tmp_path / "other")
    shutil.rmtree(folder / "part-1")
    shutil.copytree(other / "part-1", folder / "part-1")

    def mix(manifest: Any) -> None:
        change_manifest(other, lambda second: manifest["parts"].__setitem__(1, second["parts"][1]))

    change_manifest(folder, mix)
    for rank in (0, 1):
        refused(folder, "part [01] sends to part [01] .* are the parts of two cuts", rank)


def test_parts_that_changed_places(shards) -> None:
    folder = shards("plain")
    change_manifest(folder, lambda manifest: manifest["parts"].reverse())
    refused(folder, r"part 0 sends .* rows to itself, expected 0: are the files those of another part")


def test_a_part_in_another_ones_folder(shards) -> None:
    folder = shards("plain")
    (folder / "part-0").rename(folder / "spare")
    (folder / "part-1").rename(folder / "part-0")
    (folder / "spare").rename(folder / "part-1")
    for rank in (0, 1):
        refused(folder, f"part-{rank}/.*(does not match its checksum|bytes, but the manifest says)", rank)


def test_training_subgraphs_are_checked_as_well(shards) -> None:
    folder = shards("inductive")
    rewrite(folder, 1, "inner_indices", put(0, 99), train=True)
    refused(folder, "part-1/train/inner_indices.npy holds 99 at place 0", train=True)
    assert read_shard(folder, 1).rank == 1


def test_bad_values_are_found_in_every_piece_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of several pieces: the first and last value of each, and a fall between two of them."""
    monkeypatch.setattr(array_files, "PIECE_BYTES", PIECE_BYTES)
    count = 3 * PIECE_BYTES // 8
    graph = awkward(num_nodes=count + 17, num_edges=50)
    folder = write_shards(graph, partition(graph, 1, "range"), tmp_path / "shards")
    first = (PIECE_BYTES - 128) // 8
    for place in (0, first - 1, first, first + PIECE_BYTES // 8, count + 16):
        ids = np.load(folder / "part-0" / "ids.npy")
        rewrite(folder, 0, "ids", put(place, -1))
        refused(folder, f"ids.npy holds -1 at place {place}, expected", rank=0)
        rewrite(folder, 0, "ids", lambda _, ids=ids: ids)
    assert read_shard(folder, 0).num_owned == count + 17
    edges = int(np.load(folder / "part-0" / "inner_indptr.npy")[-1])
    for place in (first - 1, first):
        indptr = np.load(folder / "part-0" / "inner_indptr.npy")
        rewrite(folder, 0, "inner_indptr", put(place, edges + 1))
        refused(folder, f"inner_indptr.npy holds {indptr[place + 1]} at place {place + 1}, expected .* rise", rank=0)
        rewrite(folder, 0, "inner_indptr", lambda _, indptr=indptr: indptr)


def test_good_shards_of_every_kind_pass(kept: dict[str, Path]) -> None:
    for folder in kept.values():
        for rank in (0, 1):
            assert read_shard(folder, rank).rank == rank
    single = replace(awkward(), y=None, train_mask=None, val_mask=None, test_mask=None, x=None, num_classes=0)
    assert torch.equal(cut(single, partition(single, 1))[0].rows, torch.arange(30))
