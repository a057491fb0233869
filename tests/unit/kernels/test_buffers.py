"""The pool of buffers: layout, reuse, release."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
import torch

from halowire.kernels import buffer_bytes, empty, release_buffers
from halowire.kernels.buffers import set_buffer_floor
from halowire.kernels.dispatch import load_native
from tests.support.choices import CHOICES, use


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("cols", [0, 1, 16, 17, 47, 256])
def test_shape_and_type(choice: str, cols: int) -> None:
    with use(choice):
        buffer = empty(10, cols)
    assert (tuple(buffer.shape), buffer.dtype) == ((10, cols), torch.float32)
    buffer.fill_(2.0)
    assert float(buffer.sum()) == 20.0 * cols


def test_rows_start_on_cache_lines_unless_asked_otherwise() -> None:
    buffer = empty(10, 47)
    assert buffer.stride() == ((48, 1) if load_native() else (47, 1))
    assert empty(10, 47, padded=False).is_contiguous()
    assert not load_native() or buffer.data_ptr() % 64 == 0


def test_memory_returns_when_the_last_view_dies() -> None:
    gc.collect()  # what other tests left gives its buffers back now, not later
    release_buffers()
    assert buffer_bytes() == 0
    buffer = empty(1000, 1024)
    view = buffer[5:, 3:]
    del buffer
    gc.collect()
    assert buffer_bytes() == 0
    view.fill_(1.0)
    del view
    gc.collect()
    kept = buffer_bytes()
    assert kept >= 4_096_000 or not load_native()
    again = empty(1000, 1024)
    assert buffer_bytes() == 0
    del again
    gc.collect()  # what other tests left gives its buffers back now, not later
    release_buffers()
    assert buffer_bytes() == 0


@pytest.fixture
def floor() -> Iterator[None]:
    """No room for idle buffers but what was in use."""
    gc.collect()
    gc.collect()  # what other tests left gives its buffers back now, not later
    release_buffers()
    before = set_buffer_floor(0)
    yield
    set_buffer_floor(before)
    gc.collect()  # what other tests left gives its buffers back now, not later
    release_buffers()


def held(*megabytes: int) -> list[int]:
    """Megabytes that the pool keeps after a buffer of each size was used and let go of, one after the other."""
    kept = []
    for size in megabytes:
        buffer = empty(1024, 256 * size)
        del buffer
        gc.collect()
        kept.append(buffer_bytes() >> 20)
    return kept


def pooled(*megabytes: int) -> list[int]:
    """What the pool should hold; torch keeps its own memory."""
    return list(megabytes) if load_native() else [0] * len(megabytes)


def test_idle_buffers_take_no_more_than_was_ever_in_use(floor: None) -> None:
    assert held(4, 64, 16, 32) == pooled(4, 64, 16, 48), "the oldest make room: 4 for 64, 64 for 16"
    pair = [empty(1024, 256 * 64) for _ in range(2)]
    assert [buffer_bytes() >> 20] == pooled(48), "none of the idle ones is of a size for them"
    del pair
    gc.collect()
    assert [buffer_bytes() >> 20] == pooled(128)
    assert held(64, 64, 64) == pooled(128, 128, 128), "the same sizes again find what is there"


def test_a_floor_keeps_what_was_not_in_use_at_once(floor: None) -> None:
    set_buffer_floor(20 << 20)
    assert held(1, 4, 16, 1) == pooled(1, 5, 20, 17), "the first and the second make room"
    set_buffer_floor(2 << 20)
    assert [buffer_bytes() >> 20] == pooled(1), "16 were in use at once, so the oldest of 17 goes"


def test_buffers_alive_at_once_do_not_overlap() -> None:
    buffers = [empty(50, 33).fill_(float(i)) for i in range(20)]
    assert all(bool((buffer == i).all()) for i, buffer in enumerate(buffers))


def test_threads_may_take_and_give_at_once() -> None:
    failures: list[int] = []

    def work(value: int) -> None:
        for _ in range(200):
            buffer = empty(16, 64).fill_(float(value))
            if not bool((buffer == value).all()):
                failures.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
