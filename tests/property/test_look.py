"""One pass gives zlib's checksum and the first value that breaks the rule, on every level and like its twin."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from halowire.errors import InputError
from halowire.kernels import Kind, Rule, joined_checksum, look, mark, peer_digests
from halowire.kernels.dispatch import known_levels, load_native
from halowire.kernels.look import TYPES, joined_checksum_twin, look_twin, mark_twin, peer_digests_twin

BLOCK = 1 << 14
"""Bytes of a block of native code; values just before and after its ends are looked at too."""
LEVELS = [level for level in known_levels() if level != "portable"] or ["none"]
RULES = [Rule(), Rule(Kind.RANGE, -3, 1000), Rule(Kind.FINITE), Rule(Kind.POSITIVE), Rule(Kind.RISING, 0, 1000)]


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    if request.param != "none":
        monkeypatch.setenv("HALOWIRE_SIMD", request.param)
    return request.param


def good(dtype: torch.dtype, count: int) -> torch.Tensor:
    values = torch.arange(count, dtype=torch.float64) * 900 / max(1, count)
    return (
        values.bool()
        if dtype == torch.bool
        else values.remainder(200).to(dtype)
        if dtype.itemsize == 1
        else values.to(dtype)
    )


BREACHES = {
    Kind.RANGE: lambda dtype: 1001 if dtype.itemsize > 1 else None,
    Kind.FINITE: lambda dtype: -torch.inf,
    Kind.POSITIVE: lambda dtype: -1e-40,
    Kind.RISING: lambda dtype: -1,
}


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind.name)
def test_the_first_breach_is_found_wherever_it_stands(rule: Rule) -> None:
    for dtype in TYPES.get(rule.kind, (torch.uint8,)):
        for start in (0, 128):
            for count in (0, 1, 2, BLOCK // dtype.itemsize, BLOCK // dtype.itemsize + 1, 9000):
                head = torch.arange(start, dtype=torch.uint8)
                values = good(dtype, count)
                piece = torch.cat([head, values.view(torch.uint8)])
                crc = zlib.crc32(piece.numpy().data, 7)
                assert look(piece, start, dtype, rule, 7, 0) == (crc, None)
                assert look_twin(piece, start, dtype, rule, 7, 0) == (crc, None)
                breach = BREACHES[rule.kind](dtype) if rule.kind in BREACHES else None
                edge = BLOCK // dtype.itemsize
                for place in {0, 1, edge - 1, edge, count - 1} & set(range(count)) if breach is not None else ():
                    bad = values.clone()
                    bad[place] = breach
                    piece = torch.cat([head, bad.view(torch.uint8)])
                    crc = zlib.crc32(piece.numpy().data)
                    assert look(piece, start, dtype, rule) == look_twin(piece, start, dtype, rule, 0, 0) == (crc, place)


@given(data=st.binary(max_size=600), crc=st.integers(0, 2**32 - 1))
@example(data=bytes(64), crc=0)
def test_the_checksum_is_that_of_zlib(data: bytes, crc: int) -> None:
    piece = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
    assert look(piece, 0, torch.uint8, Rule(), crc) == (zlib.crc32(data, crc), None)


@pytest.mark.skipif(load_native() is None, reason="needs native code")
def test_the_portable_checksum_is_that_of_zlib() -> None:
    piece = torch.randint(0, 256, (1000,), dtype=torch.uint8)
    got = load_native().look(0, piece.data_ptr(), 1000, 0, 5, 0, 1, 0, 0, 0)
    assert got == (zlib.crc32(piece.numpy().data, 5), -1)


@pytest.mark.parametrize("value", [torch.nan, -torch.nan, torch.inf, -torch.inf, -1.0, -1e-40, -0.0, 0.0, 3e38])
def test_what_is_finite_and_what_is_positive(value: float) -> None:
    piece = torch.tensor([1.0, value, -0.0]).view(torch.uint8)
    finite = None if np.isfinite(value) else 1
    positive = finite if value >= 0 else 1
    for kind, place in ((Kind.FINITE, finite), (Kind.POSITIVE, positive)):
        assert look(piece, 0, torch.float32, Rule(kind))[1] == place
        assert look_twin(piece, 0, torch.float32, Rule(kind), 0, 0)[1] == place


WHOLE = st.integers(-(2**63), 2**63 - 1)


@given(values=st.lists(WHOLE, max_size=40), before=WHOLE, high=WHOLE, ordered=st.booleans())
def test_rising_goes_on_from_the_piece_before(values: list[int], before: int, high: int, ordered: bool) -> None:
    values = sorted(values) if ordered else values
    piece, rule = torch.tensor(values, dtype=torch.int64).view(torch.uint8), Rule(Kind.RISING, 0, high)
    both = [before, *values]
    place = next((i for i in range(len(values)) if both[i + 1] < both[i] or values[i] >= high), None)
    assert look(piece, 0, torch.int64, rule, 0, before)[1] == place
    assert look_twin(piece, 0, torch.int64, rule, 0, before)[1] == place


@given(first=st.binary(max_size=99), second=st.binary(max_size=99), zeros=st.integers(0, 2**21))
@example(first=b"a", second=b"", zeros=2**20)
def test_joined_checksums_are_those_of_the_whole(first: bytes, second: bytes, zeros: int) -> None:
    second += bytes(zeros)
    arguments = zlib.crc32(first), zlib.crc32(second), len(second)
    assert joined_checksum(*arguments) == joined_checksum_twin(*arguments) == zlib.crc32(first + second)


@given(st.data())
def test_digests_are_those_of_what_each_peer_gets(data: st.DataObject) -> None:
    ids = torch.tensor(data.draw(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=30)))
    counts = data.draw(st.lists(st.integers(0, 50), max_size=4))
    drawn = data.draw(st.lists(st.integers(0, ids.numel() - 1), min_size=sum(counts), max_size=sum(counts)))
    index = torch.tensor(drawn, dtype=torch.int64)
    wanted = [zlib.crc32(one.numpy().tobytes()) for one in torch.split(ids[index], counts)]
    taken = torch.zeros(2, ids.numel(), dtype=torch.bool)
    assert peer_digests(ids, index, counts, taken[0]) == peer_digests_twin(ids, index, counts, taken[1]) == wanted
    assert taken[0].nonzero().flatten().tolist() == taken[1].nonzero().flatten().tolist() == sorted(set(drawn))
    unused = torch.zeros(len(drawn), dtype=torch.bool)
    assert peer_digests(ids[index], None, counts) == peer_digests_twin(ids[index], None, counts, unused) == wanted


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("entry", [-1, 5000, -(2**63), 2**63 - 1])
def test_entries_outside_are_refused(entry: int) -> None:
    index = torch.arange(4000)
    index[3999] = entry
    table = torch.zeros(5000, dtype=torch.bool)
    for digests in (peer_digests, peer_digests_twin):
        with pytest.raises(InputError, match=r"index has an entry outside 0\.\.4999"):
            digests(torch.arange(5000), index, [1, 3999], table)
    for marking in (mark, mark_twin):
        assert marking(index[:3999], table) and not marking(index, table)
        assert not marking(index[:1], table[:0]) and marking(index[:0], table[:0])


@given(st.lists(st.lists(st.integers(0, 20), max_size=30), max_size=3))
def test_marks_are_where_they_should_be(lists: list[list[int]]) -> None:
    tables = torch.zeros(2, 21, dtype=torch.bool)
    seen: set[int] = set()
    for one in lists:
        seen |= set(one)
        places = torch.tensor(one, dtype=torch.int64)
        assert mark(places, tables[0]) and mark_twin(places, tables[1])
    assert tables[0].nonzero().flatten().tolist() == tables[1].nonzero().flatten().tolist() == sorted(seen)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="whole values"):
        look(torch.zeros(12, dtype=torch.uint8), 0, torch.int64, Rule(Kind.RISING))
    with pytest.raises(InputError, match="whole values"):
        look(torch.zeros(16, dtype=torch.uint8), 0, torch.float64, Rule(Kind.FINITE))
    with pytest.raises(InputError, match="counts are"):
        peer_digests(torch.arange(3), None, [4, -1])
