"""Every machine's run folder is made ready once; equal shards are not cut again, others are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import halowire
from halowire.errors import InputError
from halowire.launch import Place, prepare_together
from halowire.partitioning import fingerprint
from halowire.training import Config, Job
from halowire.wire import run_threads

GRAPH = "sbm:nodes=60,edges=300,features=4,classes=3"


@dataclass(frozen=True)
class Machines:
    """Four workers on two machines, whose run folders are ``folders``; ``seeds``: how each machine cuts."""

    folders: tuple[Path, Path]
    seeds: tuple[int, int] = (0, 0)

    def prepared(self) -> list[tuple[int, bool]]:
        """Which workers prepared, and whether their shards were equal to those of rank 0 before that."""
        found: list[tuple[int, bool]] = []

        def work(transport):
            machine, local = divmod(transport.rank, 2)
            run = self.folders[machine]
            job = Job(run, "tiny", GRAPH, run / "shards", 4, Config())

            def prepare(first: bytes) -> None:
                kept = bool(first) and fingerprint(job.shards) == first
                found.append((transport.rank, kept))
                run.mkdir(exist_ok=True)
                if not kept:
                    halowire.partition(GRAPH, 2, job.shards, method="random", seed=self.seeds[machine], quiet=True)

            place = Place(transport.rank, 4, local, 2, 0)
            prepare_together(job, prepare, place, transport)
            assert json.loads(fingerprint(job.shards))

        run_threads(4, work)
        assert not list(self.folders[0].glob(".*")), "no mark is left"
        return found


def test_each_machine_prepares_its_own_folder_and_keeps_equal_shards(tmp_path):
    two = Machines((tmp_path / "0", tmp_path / "1"))
    assert two.prepared() == [(0, False), (2, False)]
    assert two.prepared() == [(0, False), (2, True)]


def test_a_folder_that_machines_share_is_prepared_once(tmp_path):
    assert Machines((tmp_path / "0", tmp_path / "0")).prepared() == [(0, False)]
    (tmp_path / "1").symlink_to(tmp_path / "0")
    assert Machines((tmp_path / "0", tmp_path / "1")).prepared() == [(0, False)]


def test_other_shards_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"rank 2 has other shards in .*1/shards than rank 0"):
        Machines((tmp_path / "0", tmp_path / "1"), (0, 1)).prepared()
