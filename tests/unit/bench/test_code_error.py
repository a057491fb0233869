"""The formulas beside which the errors of the codes stand: they agree with the codes themselves."""

from __future__ import annotations

import pytest
import torch
from bench.code_error.__main__ import table
from bench.code_error.cases import CODES, config_of
from bench.code_error.expected import squared_error

from halowire.kernels import Packing, pack_rows, unpack_rows
from halowire.wire import Rate

ROWS = torch.relu(torch.randn(40, 33, generator=torch.Generator().manual_seed(3)))


def coded(rate: Rate, stream: int) -> torch.Tensor:
    packing = Packing(rate.bits, rate.code)
    data = torch.empty(len(ROWS) * packing.row_bytes(33), dtype=torch.uint8)
    pack_rows(ROWS, packing, stream, torch.arange(len(ROWS)), data)
    return unpack_rows(data, packing, 33)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_minmax_has_the_expected_error_on_average(bits):
    rate = Rate(bits)
    mean = sum(float((coded(rate, stream) - ROWS).square().sum()) for stream in range(200)) / 200
    assert mean == pytest.approx(squared_error(ROWS, rate), rel=0.02)


def test_clipped_has_the_expected_error_on_average():
    rate = Rate(1, "clipped")
    mean = sum(float((coded(rate, stream) - ROWS).square().sum()) for stream in range(200)) / 200
    assert mean == pytest.approx(squared_error(ROWS, rate), rel=0.02)


def test_levels_has_the_expected_error_exactly():
    rate = Rate(1, "levels")
    assert float((coded(rate, 0) - ROWS).square().sum()) == pytest.approx(squared_error(ROWS, rate), rel=1e-3)


def test_columns_lose_their_share():
    norm = float(ROWS.square().sum())
    assert squared_error(ROWS, Rate(ratio=4.0)) == pytest.approx(norm * (1 - 8 / 33), rel=1e-6)
    with pytest.raises(ValueError, match="not for 1 bits"):
        squared_error(ROWS, Rate(1, ratio=4.0))


def test_every_code_has_settings_and_rows_in_the_table():
    assert len({config_of(name, 0) for name in CODES}) == len(CODES)
    places = [(epoch, layer, way) for epoch in (0, 10) for layer in (1, 2) for way in ("forward", "backward")]
    rows = [
        {"code": code, "epoch": epoch, "layer": layer, "direction": way, "expected": 0.25, "measured": 1e-5}
        for code in CODES
        for epoch, layer, way in places
    ]
    lines = table(rows)
    assert len(lines) == 2 + 2 * len(CODES)
    assert lines[2] == f"| {next(iter(CODES))} | 0 |{' 0.250 / 1e-05 |' * 4}"
