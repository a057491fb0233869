"""The pool of buffers: layout, reuse, release."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

from halowire.kernels import buffer_bytes, empty, native_available, release_buffers
from tests.unit.kernels.choices import CHOICES, use


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
    assert buffer.stride() == ((48, 1) if native_available() else (47, 1))
    assert empty(10, 47, padded=False).is_contiguous()
    assert not native_available() or buffer.data_ptr() % 64 == 0


def test_memory_returns_when_the_last_view_dies() -> None:
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
    held = buffer_bytes()
    assert held >= 4_096_000 or not native_available()
    again = empty(1000, 1024)
    assert buffer_bytes() == 0
    del again
    release_buffers()
    assert buffer_bytes() == 0


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
