"""Weight gradients in few bits: the same on every worker, close to the sum, errors fed back, bytes as told."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from halowire.wire import HEADER_BYTES, GradientCodec, Transport

LENGTH = 1000


def vector_of(rank: int, epoch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(10 * epoch + rank)
    return torch.randn(LENGTH, generator=generator) * torch.linspace(0.1, 10, LENGTH)


def reduce_here(rank: int, bits: int, epochs: int, fixed: bool) -> tuple[list[np.ndarray], int]:
    transport = Transport()
    codec = GradientCodec(bits, transport, seed=3)
    found = []
    for epoch in range(epochs):
        vector = vector_of(rank, 0 if fixed else epoch)
        codec.all_reduce(vector, epoch, "test")
        found.append(vector.numpy())
    return found, transport.ledger.totals["gradient"]


@pytest.mark.parametrize(("bits", "limit"), [(16, 0.01), (8, 0.02), (1, 0.8)])
@pytest.mark.parametrize("workers", [2, 3])
def test_every_worker_gets_the_same_sum(on_workers, workers, bits, limit):
    results = on_workers(workers, reduce_here, bits, 2, False)
    for epoch in range(2):
        want = sum(vector_of(rank, epoch) for rank in range(workers)).numpy()
        for found, _ in results:
            np.testing.assert_array_equal(found[epoch], results[0][0][epoch])
        if epoch == 0:
            error = np.linalg.norm(results[0][0][0] - want) / np.linalg.norm(want)
            assert error < limit
    # 4 rows of 256 values; every row travels to its owner from all others and from its owner to all others. In each of
    # the two steps every worker sends every other one a message, which has a header.
    width = {16: 512, 8: 260, 1: 36}[bits]
    headers = 2 * 2 * workers * (workers - 1) * HEADER_BYTES
    assert sum(sent for _, sent in results) == 2 * 2 * (workers - 1) * 4 * width + headers


def test_feedback_makes_up_for_the_errors(on_workers):
    results = on_workers(2, reduce_here, 1, 200, True)
    want = sum(vector_of(rank, 0) for rank in range(2)).numpy()
    mean = np.mean(results[0][0], axis=0)
    first = np.linalg.norm(results[0][0][0] - want)
    assert np.linalg.norm(mean - want) < 0.1 * first
