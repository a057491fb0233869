"""TensorBoard files: written from the events, and a clear word when tensorboard is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.report import write_tensorboard


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
