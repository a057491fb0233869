"""Damaged checkpoints: the one before serves, bit for bit; where none is whole, the run is refused and left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save

from halowire.errors import InputError, TrainingError
from halowire.training import Hooks, Silent
from halowire.training.checkpoint import newest_checkpoint, saved
from halowire.training.checkpoint_choice import best_weights, find_checkpoint
from halowire.wire import Transport
from tests.support.checkpoint_case import (
    damaged_copies,
    flip,
    put,
    resumed_here,
    stopped_here,
    straight_here,
    tree,
)
from tests.support.recipe_case import config_of, recipe_trainer
from tests.support.resumed import assert_same

NAMES = {
    "exact": {"manifest.json", "state.json", "state.safetensors"},
    "halowire": {"manifest.json", "state.json", "state.safetensors", "wire-0.safetensors", "wire-1.safetensors"},
}


@pytest.mark.parametrize("recipe", NAMES)
def test_any_damage_of_the_newest_is_named_and_the_one_before_serves(on_workers, tmp_path, recipe):
    want = on_workers(2, straight_here, str(tmp_path / "straight"), recipe, {})
    run = tmp_path / "run"
    on_workers(2, stopped_here, str(run), recipe, {}, 6)
    assert [path.name for path in saved(run)] == ["epoch-000006", "epoch-000004"]
    assert {path.name for path in (run / "checkpoints/epoch-000006").iterdir()} == NAMES[recipe]
    copies = dict(damaged_copies(run, "epoch-000006", tmp_path / "copies"))
    assert len(copies) == 3 * len(NAMES[recipe])
    results = on_workers(2, resumed_here, [str(copy) for copy in copies.values()], recipe, {})
    for rank, runs in enumerate(results):
        for name, (epoch, warnings, got) in zip(copies, runs, strict=True):
            assert epoch == 4, name
            assert len(warnings) == 1 and "epoch-000006 is skipped: " in warnings[0], warnings
            assert name.split()[0] in warnings[0], warnings
            assert_same(got, want[rank])
    for copy in copies.values():
        assert [path.name for path in saved(copy)] == ["epoch-000008", "epoch-000006"], "the damaged one was replaced"
        assert newest_checkpoint(copy).name == "epoch-000008"


def refused_here(rank: int, run: str) -> str:
    with pytest.raises(InputError) as caught:
        recipe_trainer(rank, run, config_of("halowire")).resume()
    return str(caught.value)


def test_all_workers_refuse_what_is_wrong_in_the_file_of_one(on_workers, tmp_path):
    """The file of rank 1 has its checksum, but cannot be read, or holds narrower rows: both ranks say so."""
    run, newest = tmp_path / "run", tmp_path / "run/checkpoints/epoch-000006"
    on_workers(2, stopped_here, str(run), "halowire", {}, 6)
    tensors = load_file(newest / "wire-1.safetensors")
    name = next(name for name, value in tensors.items() if value.dim() == 2)
    for content, words in (
        (b"no tensors", "holds tensors that cannot be read"),
        (save(tensors | {name: tensors[name][:, :-1].contiguous()}), "wire-1.safetensors of the checkpoint has its"),
    ):
        put(newest, "wire-1.safetensors", content)
        before = tree(run)
        said = set(on_workers(2, refused_here, str(run)))
        assert len(said) == 1 and words in said.pop() and tree(run) == before


def test_where_no_checkpoint_is_whole_nothing_is_touched(on_workers, tmp_path):
    run = tmp_path / "run"
    on_workers(2, stopped_here, str(run), "halowire", {}, 6)
    flip(run / "checkpoints/epoch-000006/wire-1.safetensors")
    (run / "checkpoints/epoch-000004/manifest.json").unlink()
    before = tree(run)
    said = set(on_workers(2, refused_here, str(run)))
    assert len(said) == 1 and tree(run) == before
    words = said.pop()
    assert "no checkpoint of" in words and "wire-1.safetensors has not the content" in words and "rank 1" in words
    assert "epoch-000004: it has no manifest.json" in words and "nothing was changed" in words


def apart_here(rank: int, folder: str, recipe: str, epochs: int, resume: bool) -> tuple[int, list[str]]:
    """Every worker has a run folder of its own, as on machines that share no file system."""
    trainer = recipe_trainer(rank, f"{folder}/machine-{rank}", config_of(recipe))
    warnings: list[str] = []
    if resume:
        trainer.resume(warn=warnings.append)
    begun = trainer.progress.epoch
    trainer.run(Hooks(Silent(), should_stop=lambda: trainer.progress.epoch == epochs - 1))
    return begun, warnings


def test_machines_without_a_shared_file_system_hold_their_own_files_and_agree(on_workers, tmp_path):
    on_workers(2, apart_here, str(tmp_path), "halowire", 6, False)
    files = [{path.name for path in (tmp_path / f"machine-{n}/checkpoints/epoch-000006").iterdir()} for n in (0, 1)]
    assert files[0] == NAMES["halowire"] - {"wire-1.safetensors"}
    assert files[1] == {"manifest.json", "wire-1.safetensors"}
    shutil.rmtree(tmp_path / "machine-1/checkpoints/epoch-000006")  # killed between the two renames
    for begun, warnings in on_workers(2, apart_here, str(tmp_path), "halowire", 8, True):
        assert begun == 4 and "it has no manifest.json" in warnings[0] and "rank 1" in warnings[0]
    on_workers(2, apart_here, str(tmp_path / "exact"), "exact", 6, False)
    assert not list((tmp_path / "exact/machine-1/checkpoints").iterdir()), "tried, and left empty"


def test_the_last_few_are_kept_and_left_overs_go(on_workers, tmp_path):
    left = tmp_path / "checkpoints/.epoch-000002.tmp-dead"
    left.mkdir(parents=True)
    on_workers(2, straight_here, str(tmp_path), "halowire", {"checkpoint__keep": 3, "checkpoint__every": 1})
    assert [path.name for path in saved(tmp_path)] == [f"epoch-{epoch:06d}" for epoch in (8, 7, 6)]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 3 and not list(tmp_path.glob(".keeper*"))


def full_here(rank: int, run: str, at: int) -> tuple[str, int]:
    """Rank 1 cannot write after ``at`` epochs: the folder of its checkpoints becomes a file."""
    trainer = recipe_trainer(rank, run, config_of("halowire"))

    def spoil() -> bool:
        if rank == 1 and trainer.progress.epoch == at:
            shutil.rmtree(f"{run}/checkpoints", ignore_errors=True)
            Path(f"{run}/checkpoints").write_text("in the way")
        return False

    with pytest.raises(TrainingError) as caught:
        trainer.run(Hooks(Silent(), should_stop=spoil))
    return str(caught.value), trainer.progress.epoch


def test_what_cannot_be_written_ends_all_workers_with_the_reason(on_workers, tmp_path):
    results = on_workers(2, full_here, str(tmp_path), 0)
    assert len(set(results)) == 1
    words, epoch = results[0]
    assert "checkpoints" in words and epoch >= 3, "the epoch after the checkpoint tells"


def test_weights_that_are_damaged_are_not_used(on_workers, tmp_path):
    on_workers(1, stopped_here, str(tmp_path), "exact", {}, 6)
    whole = best_weights(tmp_path)
    flip(tmp_path / "checkpoints/epoch-000006/state.safetensors")
    said: list[str] = []
    assert best_weights(tmp_path, said.append) != whole and "epoch-000006 is skipped: state.safetensors" in said[0]
    flip(tmp_path / "checkpoints/epoch-000004/state.json")
    with pytest.raises(InputError, match=r"no checkpoint of .* is whole"):
        best_weights(tmp_path)


def test_a_manifest_of_another_version_is_not_read(on_workers, tmp_path):
    on_workers(1, stopped_here, str(tmp_path), "exact", {}, 6)
    for words, text in (("cannot be read", "{"), ("not the manifest", "[]"), ("content", '{"format": "%s"}')):
        path = tmp_path / "checkpoints/epoch-000006/manifest.json"
        path.write_text(text.replace("%s", "halowire-checkpoint"))
        said: list[str] = []
        found = find_checkpoint(tmp_path, Transport(), said.append)
        assert found is not None and found.manifest.epoch == 4 and words in said[0], said
    assert json.loads((tmp_path / "checkpoints/epoch-000004/manifest.json").read_text())["manifest"]["version"] == 1
