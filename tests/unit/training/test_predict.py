"""Predictions: the user's order whatever the parts, complete files only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from halowire.errors import InputError
from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.training import gather_predictions, write_predictions
from halowire.wire import Transport


def gathered_here(rank: int) -> tuple[list[int], list[float]] | None:
    """Every worker predicts the graph's row number of its nodes."""
    graph = block_model(50, 300, 4, 3, seed=1)
    transport = Transport(deadline=30)
    shard = cut(graph, partition(graph, transport.size, method="random", seed=4))[rank]
    found = gather_predictions(shard.rows.float()[:, None].repeat(1, 3), shard, transport)
    return None if found is None else (found[1].tolist(), found[0][:, 2].tolist())


@pytest.mark.parametrize("size", [2, 3])
def test_rows_come_back_in_the_order_of_the_graph(on_workers, size):
    first, *others = on_workers(size, gathered_here)
    assert first == (list(range(50)), [float(row) for row in range(50)])
    assert all(other is None for other in others)


def test_files(tmp_path):
    logits = torch.tensor([[1.0, -2.0, 3.0], [-1.0, -1.5, -2.0]])
    ids = torch.tensor([1_000_000_007, 3])
    write_predictions(logits, ids, False, tmp_path / "new" / "a.csv")
    write_predictions(logits, ids, True, tmp_path / "new" / "b.csv")
    write_predictions(logits, ids, True, tmp_path / "new" / "c.npy")
    assert (tmp_path / "new" / "a.csv").read_text().split() == ["id,class", "1000000007,2", "3,0"]
    assert (tmp_path / "new" / "b.csv").read_text().splitlines() == ["id,class", "1000000007,0 2", "3,"]
    np.testing.assert_array_equal(np.load(tmp_path / "new" / "c.npy"), logits.numpy())
    assert len(list((tmp_path / "new").iterdir())) == 3, "no temporary file stays"


def test_another_format_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.npy"):
        write_predictions(torch.zeros(1, 2), torch.zeros(1), False, Path(tmp_path, "x.txt"))
