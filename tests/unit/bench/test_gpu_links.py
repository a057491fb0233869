"""The table of links in docs/gpu.md is the one that the script computes."""

from __future__ import annotations

import pytest
from bench.gpu_links.__main__ import PAGE, Epoch, computation, epochs, expected, table


def test_the_page_has_the_table():
    assert table() in PAGE.read_text(), "`python -m bench.gpu_links --write`"


def test_the_page_names_the_computation():
    assert f"at least {1e3 * computation():.1f} ms an epoch" in PAGE.read_text()
    coding = next(iter(epochs().values()))
    for recipe in ("half", "halowire-classic"):
        assert f"{1e3 * coding[recipe].coding:.1f} ms" in PAGE.read_text()


def test_times_by_hand():
    # 473,585,792 bytes of halo rows and 1,749,360 of gradients, half of them from each of two workers
    assert epochs()["1 Gbit/s Ethernet"]["exact"].wire == pytest.approx((473_585_792 + 1_749_360) / 2 / 0.125e9)
    # 2 passes over 2 million edges of 296 columns; 3 products of 100,000 rows with all weights, two of each layer
    assert computation() == pytest.approx(2 * 2e6 * 296 * 4 / 1555e9 + 3 * 1e5 * 2 * (32768 + 65536 + 10240) / 9.75e12)


def test_the_first_recipe_that_hides():
    fast, slow = Epoch(1.0, 0.1, 1.4), Epoch(1.0, 0.0, 1.6)
    assert expected({"exact": slow, "half": fast, "halowire-classic": fast}) == "`half`"
    assert expected({"exact": slow, "half": Epoch(1.0, 0.0, 1.55)}) == "none; `half` waits least"
