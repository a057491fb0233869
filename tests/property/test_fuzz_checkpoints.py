"""Checkpoints with any damage: the one before serves, or one line says why none does; nothing large is allocated."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.training import Hooks, Silent, best_weights
from halowire.training.checkpoint import Manifest, newest_checkpoint, saved
from halowire.training.checkpoint_choice import find_checkpoint, parse_weights
from halowire.wire import Transport
from tests.support.checkpoint_case import put, written
from tests.support.fuzzing import changed, damage, examples, extremes, read_or_refused
from tests.support.recipe_case import config_of, recipe_trainer

fuzz = settings(deadline=None, max_examples=examples())
slow_fuzz = settings(deadline=None, max_examples=examples() // 3)
"""For tests that train on with what was read."""
NEWEST, BEFORE = "epoch-000008", "epoch-000006"
SHARED = ("state.json", "state.safetensors")
FILES = (*SHARED, "wire-0.safetensors")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one worker with two checkpoints; every example damages the newer one, which is put back afterwards."""
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    config = config_of("sylvie-a", checkpoint__every=6)
    recipe_trainer(0, str(folder), config).run()
    assert [path.name for path in saved(folder)] == [NEWEST, BEFORE]
    return folder


@contextmanager
def newest_of(run: Path) -> Iterator[Path]:
    """The folder of the newest checkpoint, to be damaged in the block."""
    folder, kept = run / "checkpoints" / NEWEST, run / "kept"
    shutil.copytree(folder, kept)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.unlink(missing_ok=True)
        kept.rename(folder)


def resumed(run: Path) -> int:
    """The epoch that a resumed run goes on from: of the newest checkpoint that is good for all its readers."""
    trainer = recipe_trainer(0, str(run), config_of("sylvie-a", epochs=9, eval__every=9))
    trainer.resume()
    epoch = trainer.progress.epoch
    trainer.run(Hooks(Silent(), keep=False))  # what was read is also used
    return epoch


@fuzz
@given(st.data(), st.sampled_from(["manifest.json", *FILES]))
def test_after_any_damage_the_one_before_serves(run, data, name):
    with newest_of(run) as folder:
        good = (folder / name).read_bytes()
        bad = data.draw(damage(good))
        (folder / name).write_bytes(bad)
        said: list[str] = []
        found = find_checkpoint(run, Transport(), said.append)
        assert found is not None
        if bad == good:
            assert found.manifest.epoch == 8 and not said
        elif found.manifest.epoch == 8:  # JSON that says the same in other bytes, such as one space more
            assert name == "manifest.json" and Manifest.read(folder) == found.manifest and not said
        else:
            assert found.manifest.epoch == 6 and len(said) == 1 and "\n" not in said[0] and name in said[0]
        assert parse_weights(best_weights(run))


@slow_fuzz
@given(st.data())
def test_any_manifest_with_a_good_checksum(run, data):
    with newest_of(run) as folder:
        written(folder, lambda facts: data.draw(changed(facts)))
        newest_checkpoint(run)
        read_or_refused(lambda: parse_weights(best_weights(run)))
        assert read_or_refused(lambda: resumed(run)) in (8, 6, None)


@slow_fuzz
@given(st.data(), st.sampled_from(FILES))
def test_any_files_with_good_checksums(run, data, name):
    with newest_of(run) as folder:
        good = (folder / name).read_bytes()
        put(folder, name, data.draw(damage(good)))
        read_or_refused(lambda: parse_weights(best_weights(run)))
        read_or_refused(lambda: resumed(run))


@slow_fuzz
@given(st.data())
def test_any_progress_with_a_good_checksum(run, data):
    with newest_of(run) as folder:
        record = data.draw(changed(json.loads((folder / "state.json").read_text())))
        put(folder, "state.json", json.dumps(record).encode())
        read_or_refused(lambda: resumed(run))


def test_extreme_numbers(run):
    """Sizes of a million million bytes, epochs below zero: nothing is allocated for them."""
    with newest_of(run) as folder:
        good = (folder / "manifest.json").read_bytes()
        facts = json.loads(good)["manifest"]
        for key in ("epoch", "files", "wire", "save", "version"):
            for other in extremes(facts[key]):
                written(folder, lambda facts, key=key, other=other: facts | {key: other})
                found = find_checkpoint(run, Transport(), lambda text: None)
                assert found is not None and found.manifest.epoch in (6, other if key == "epoch" else 8)
                (folder / "manifest.json").write_bytes(good)


@pytest.mark.parametrize("name", ["manifest.json", *FILES])
def test_what_is_no_file_is_skipped_at_once(run, name):
    """A folder, a link to nowhere, a pipe that nobody writes to, and a file in the place of the checkpoint."""
    kinds = (Path.mkdir, lambda path: path.symlink_to("nowhere"), os.mkfifo)
    for make in kinds:
        with newest_of(run) as folder:
            (folder / name).unlink()
            make(folder / name)
            found = find_checkpoint(run, Transport(), lambda text: None)
            assert found is not None and found.manifest.epoch == 6
    with newest_of(run) as folder:
        shutil.rmtree(folder)
        folder.write_bytes(b"no folder")
        found = find_checkpoint(run, Transport(), lambda text: None)
        assert found is not None and found.manifest.epoch == 6


def test_the_run_is_whole_again(run):
    assert resumed(run) == 8 and [path.name for path in saved(run)] == [NEWEST, BEFORE]
