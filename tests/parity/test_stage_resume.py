"""A resumed run of stages ends exactly like the uninterrupted one, bit for bit, and its timeline is complete."""

from __future__ import annotations

from functools import partial

import pytest

from halowire.events import read_events
from halowire.training import Config
from tests.support.resumed import assert_same, run_in_one_go, run_in_two
from tests.support.stage_case import make_config, trainer_of


def resumed_here(rank: int, run: str, config: Config) -> tuple[dict, dict]:
    want = run_in_one_go(trainer_of(rank, config, f"{run}/a"))
    _, got = run_in_two(partial(trainer_of, rank, config, f"{run}/b"), 5, asked=rank == 0)
    return want, got


RESUMES = {
    "snapshot": {"mesh.history": 3},
    "last epoch's rows": {"mesh.history": 1, "optim.clip": 0.5},
    "stale": {"mesh.gradient_rule": "stale", "mesh.history": 4, "mesh.keep": "aggregates"},
    "delta": {"rate.bits": 1, "rate.decay": 0.8, "mesh.parts": 1},
    "weights in 8 bits": {"rate.weights": 8},
    "one chunk, delta": {"rate.bits": 1, "rate.decay": 0.8, "mesh.chunks": 1},
}


@pytest.mark.parametrize("case", RESUMES)
def test_an_interrupted_run_ends_like_the_straight_one(on_workers, tmp_path, case):
    config = make_config("gcnii", 2, mesh__chunks=3, epochs=8, eval__every=2).replace(RESUMES[case])
    workers = 2 * (config.mesh.parts or 2)
    results = on_workers(workers, resumed_here, str(tmp_path), config)
    for want, got in results:
        assert_same(got, want)
        for key in ("wire_bytes_per_epoch", "stage_bytes_per_epoch", "halo_bytes_per_epoch"):
            assert got["summary"][key] == want["summary"][key], key
    whole = results[0][1]["summary"]
    assert whole["mesh"]["stages"] == 2 and whole["stage_bytes_per_epoch"] > 0
    total = whole["stage_bytes_per_epoch"] + whole["halo_bytes_per_epoch"]
    assert whole["wire_bytes_per_epoch"] == total
    for rank in range(workers):
        events = read_events(tmp_path / "a" / f"events-{rank}.jsonl")
        timeline = next(event for event in events if event["event"] == "timeline")
        kinds = {span[0] for span in timeline["spans"]}
        assert {"forward", "backward", "wait", "transfer"} <= kinds
        assert all(start <= end for *_, start, end in timeline["spans"])
