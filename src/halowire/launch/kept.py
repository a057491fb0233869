"""Work of a worker inside the user's own process, which finds torch afterwards as it left it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_kept() -> Iterator[None]:
    """Put back torch's random numbers and number of threads at the end of the block."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            torch.set_num_threads(threads)
