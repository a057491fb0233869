"""Links and files in the places of checkpoints are removed like damaged checkpoints; what they point to stays."""

from __future__ import annotations

import pytest

from halowire.training.checkpoint import Manifest, folder_of, keep_newest, publish, remove_leftovers, saved

KINDS = {
    "a link to nowhere": lambda path, other: path.symlink_to("nowhere"),
    "a link to a folder": lambda path, other: path.symlink_to(other),
    "a file": lambda path, other: path.write_bytes(b"no folder"),
}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_bytes(b"kept")
    yield tmp_path / "run"
    assert (other / "kept").read_bytes() == b"kept"


def published(run, epoch):
    temporary = run / "checkpoints" / f".epoch-{epoch:06d}.tmp-0"
    temporary.mkdir()
    publish(temporary, folder_of(run, epoch), Manifest(epoch, f"x-{epoch}", False, {}, {}))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_removed_with_the_next_checkpoint_and_nothing_is_left(run, kind):
    KINDS[kind](folder_of(run, 4), run.parent / "other")
    published(run, 6)
    keep_newest(run, 2, {"epoch-000004": "it has no manifest"})
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["epoch-000006"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_takes_its_place(run, kind):
    KINDS[kind](folder_of(run, 6), run.parent / "other")
    published(run, 6)
    assert [path.name for path in saved(run)] == ["epoch-000006"]
    assert Manifest.read(folder_of(run, 6)).epoch == 6 and not folder_of(run, 6).is_symlink()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_removed_among_leftovers(run, kind):
    KINDS[kind](run / "checkpoints/.epoch-000004.removed.tmp", run.parent / "other")
    remove_leftovers(run)
    assert not list((run / "checkpoints").iterdir())
