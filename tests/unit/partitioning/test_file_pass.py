"""A file gives the same checksums and the same first breach in pieces of any size, with runs that end anywhere."""

from __future__ import annotations

import zlib

import pytest
import torch

from halowire.kernels import Kind, Rule
from halowire.partitioning.file_pass import FilePass

HEADER = 128
RUNS = (5, 0, 12, 3, 0)
RISING = Rule(Kind.RISING, 0, 100)


def taken(values: torch.Tensor, size: int, runs: tuple[int, ...], rule: Rule = RISING) -> tuple[FilePass, bytes]:
    """The pass over a header and ``values``, in pieces of ``size`` bytes."""
    data = torch.cat([torch.arange(HEADER, dtype=torch.uint8), values.view(torch.uint8)])
    seen = FilePass(data.numel(), HEADER, values.dtype, rule, runs)
    for piece in torch.split(data, size):
        seen.take(piece.clone())
    return seen, data.numpy().tobytes()


@pytest.mark.parametrize("size", [8, 24, 64, HEADER, HEADER + 40, 4096])
def test_runs_have_their_own_checksums_and_rise_apart(size: int) -> None:
    values = torch.cat([torch.arange(run) + 7 for run in RUNS])
    seen, data = taken(values, size, RUNS)
    assert (seen.bad, seen.checksum) == (None, zlib.crc32(data))
    assert seen.digests == [zlib.crc32(run.numpy().tobytes()) for run in torch.split(values, RUNS)]
    whole, _ = taken(values, size, ())
    assert (whole.bad, whole.checksum, whole.digests) == (5, zlib.crc32(data), [])
    for place in range(1, 20):
        bad = values.clone()
        bad[place] = 100
        assert taken(bad, size, RUNS)[0].bad == place
        bad[place] = -1
        assert taken(bad, size, RUNS)[0].bad == place


@pytest.mark.parametrize("size", [24, 4096])
def test_lengths_that_do_not_fit_the_file_are_no_runs(size: int) -> None:
    values = torch.arange(20)
    seen, data = taken(values, size, (5, 12))
    assert (seen.bad, seen.checksum, seen.digests) == (None, zlib.crc32(data), [])
    empty, data = taken(values[:0], size, (0, 0))
    assert (empty.bad, empty.checksum, empty.digests) == (None, zlib.crc32(data), [0, 0])
