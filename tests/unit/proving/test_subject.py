"""Host waits are counted from the driver's calls in a profile, epoch by epoch."""

from __future__ import annotations

from halowire.proving.subject import END, Profiled, profiled


def test_waits_are_counted_between_the_ends_of_epochs():
    found = Profiled()
    found.epoch(0, 1.0, 1.0, 0)
    found.epoch(1, 1.0, 1.0, 0)
    found.evaluated(1, {})
    found.epoch(2, 1.0, 1.0, 0)
    found.count(
        [
            ("cudaStreamSynchronize", 1.0), ("aten::mm", 1.1), ("cudaEventSynchronize", 1.2), (END, 2.0),
            ("cudaDeviceSynchronize", 2.5), ("cudaLaunchKernel", 2.6), (END, 3.0),
            ("cudaStreamSynchronize", 3.5), (END, 4.0),
            (END, 6.0), ("hipStreamSynchronize", 5.0), ("hipMemcpyAsync", 5.5), ("hipMemcpyWithStream", 5.6),
            ("cudaStreamSynchronize", 7.0),
        ]
    )  # fmt: skip
    assert found.per_epoch == [2, 1, 2], "the wait of the evaluation and the one at the end belong to no epoch"


def test_the_profiler_sees_the_ends_of_epochs():
    with profiled() as found:
        found.epoch(0, 1.0, 1.0, 0)
        found.evaluated(0, {})
        found.epoch(1, 1.0, 1.0, 0)
    assert found.per_epoch == [0, 0]
