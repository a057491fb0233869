"""A pipeline refuses what its stages cannot do, and a finished one frees its historical rows at once."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.training import Config, Hooks, Silent, Staged, Trainer, mesh_of, recipe_config
from halowire.wire import Transport


def trainer_of(run: Path, chunks: int) -> Trainer:
    graph = block_model(60, 240, 4, 3, seed=1)
    shard = cut(graph, partition(graph, 1))[0]
    settings = {"model.name": "gcnii", "model.layers": 3, "model.hidden": 8, "mesh.chunks": chunks, "epochs": 3}
    config, transport = Config().replace(settings), Transport()
    return Trainer(Staged(shard, shard, config, mesh_of(config, 1), transport), config, transport, run)


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_finished_pipeline_is_freed_at_once(tmp_path, chunks):
    trainer = trainer_of(tmp_path, chunks)
    trainer.run()
    runner = weakref.ref(trainer.runner)
    gc.disable()
    try:
        del trainer
        assert runner() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("keep", [True, False])
def test_a_run_that_is_only_timed_keeps_no_checkpoint(tmp_path, keep):
    trainer_of(tmp_path, 3).run(Hooks(Silent(), should_stop=lambda: True, keep=keep))
    assert (tmp_path / "checkpoints").exists() == keep


def test_settings_that_stages_cannot_have_are_refused(tmp_path):
    graph = block_model(60, 240, 4, 3, seed=1)
    shard = cut(graph, partition(graph, 1))[0]
    config = recipe_config("halowire").replace({"mesh.chunks": 3})
    with pytest.raises(InputError, match="runs in one stage and one chunk"):
        Staged(shard, shard, config, mesh_of(config, 1), Transport())
