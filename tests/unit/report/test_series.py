"""Curves and totals of a run: summed or compared over the ranks, the first epoch apart; their TensorBoard files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.report import read_run, series, write_tensorboard
from tests.support.fake_run import rewrite, write_recut_run


def test_curves_combine_the_ranks(run: Path) -> None:
    found = read_run(run)
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert found.epochs() == list(range(60))
    first = [rank.epochs[0] for rank in found.ranks]
    assert series.wire_bytes(found)[0] == (0, sum(event["wire_bytes"] for event in first))
    assert series.seconds(found)[0] == (0, max(event["seconds"] for event in first))
    assert [epoch for epoch, _ in series.metrics(found, "val")] == [9, 19, 29, 39, 49, 59]


def test_phases_add_up_to_the_epoch_and_leave_the_first_one_out(run: Path) -> None:
    rank = read_run(run).ranks[1]
    steady = [event["seconds"] for epoch, event in rank.epochs.items() if epoch > 0]
    assert sum(series.mean_phases(rank).values()) == pytest.approx(sum(steady) / len(steady), rel=1e-3)


def test_waiting_is_for_halo_rows_and_weight_gradients(run: Path) -> None:
    found = read_run(run)
    phases = [rank.epochs[7]["phases"] for rank in found.ranks]
    assert dict(series.waits(found))[7] == pytest.approx(sum(one["wait"] + one["reduce"] for one in phases) / 2)


def test_time_that_no_phase_claims_is_other(run: Path) -> None:
    rewrite(run / "events-0.jsonl", lambda event: {**event, "seconds": 1.0} if event["event"] == "epoch" else event)
    phases = series.mean_phases(read_run(run).ranks[0])
    assert sum(phases.values()) == pytest.approx(1.0) and phases["other"] > 0.3


def test_exchanges_are_summed_over_ranks(run: Path) -> None:
    totals = series.exchange_totals(read_run(run))
    assert [row[:2] for row in totals] == [(1, "forward"), (2, "forward"), (1, "backward"), (2, "backward")]
    assert sum(row[2] for row in totals) == pytest.approx(12_900_000, rel=1e-3)


def test_ranks_that_are_gone_count_for_the_epochs_in_which_they_sent(tmp_path: Path) -> None:
    found = read_run(write_recut_run(tmp_path / "run"))
    assert [rank.rank for rank in found.present] == [0, 1] and len(found.ranks) == 4
    sent = [event["wire_bytes"] for rank in found.ranks for event in series.steady(rank)]
    waits = [event["phases"]["wait"] for rank in found.ranks for event in series.steady(rank)]
    totals = series.exchange_totals(found)
    assert len(waits) == 2 * 59 + 2 * 19
    assert sum(row[2] for row in totals) == pytest.approx(sum(sent) / 59, rel=1e-6)
    assert sum(row[3] for row in totals) == pytest.approx(sum(waits) / len(waits))


def test_curves_are_written_once(run: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write_tensorboard(run)
    folder = write_tensorboard(run)
    assert folder == run / "tensorboard" and len(list(folder.iterdir())) == 1
    found = EventAccumulator(str(folder))
    found.Reload()
    assert {"loss/train", "metric/val", "time/epoch_seconds", "wire/bytes"} <= set(found.Tags()["scalars"])
    assert [point.step for point in found.Scalars("metric/val")] == [9, 19, 29, 39, 49, 59]
    assert found.Scalars("wire/bytes")[0].value == 12_900_000


def test_a_missing_tensorboard_is_said(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="tensorboard is not installed"):
        write_tensorboard(run)
