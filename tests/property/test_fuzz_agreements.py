"""Lists that workers tell each other, with any bytes changed on the way: agreed on, or refused with the peer's name.

Whatever is agreed on stays inside the arrays that are looked up with it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.errors import InputError, LateError, MessageError
from halowire.graph import block_model
from halowire.kernels import Csr
from halowire.partitioning import cut, partition
from halowire.wire import (
    Cover,
    HaloExchange,
    InProcessTransport,
    Machines,
    Policy,
    Rate,
    RowCodec,
    codec_of,
    run_threads,
)
from halowire.wire.chunk_halo import Routes
from halowire.wire.codec import Uniform
from halowire.wire.hand_on import HandOn
from halowire.wire.header import HEADER_BYTES
from halowire.wire.mixed import Mixed
from halowire.wire.once import swap_once
from tests.support.fuzzing import examples

fuzz = settings(deadline=None, max_examples=4 * examples())
CPU = torch.device("cpu")
NODES, WORKERS = 40, 3
MACHINES = Machines((0, 0, 1, 1))
GRAPH = block_model(NODES, 300, 4, 3, seed=1)
SHARDS = cut(GRAPH, partition(GRAPH, WORKERS, "random", 0))
FOUR = cut(GRAPH, partition(GRAPH, len(MACHINES.of), "random", 0))
wounds = st.tuples(
    st.integers(0, 24),
    st.integers(0, 4096),
    st.one_of(
        st.binary(min_size=1, max_size=16),
        st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x01" + b"\0" * 7, b"\xff\xff\xff\x7f", b"\0" * 7 + b"\x80"]),
    ),
)
"""Which of the messages is changed, where, and to which bytes."""


def damaged(transport: InProcessTransport, wound: tuple[int, int, bytes], kind: str = "rows") -> None:
    """Let the messages of rank 0 be changed on their way to the others."""
    which, at, data = wound
    hub, seen = transport._hub, []
    put = hub.put

    def changed(key: tuple[Any, ...], value: torch.Tensor) -> None:
        if key[0] == kind and key[-2] == 0:
            if len(seen) == which:
                value = value.clone()
                start = at % value.numel()
                piece = torch.frombuffer(bytearray(data), dtype=torch.uint8)[: value.numel() - start]
                value[start : start + piece.numel()] = piece
            seen.append(key)
        put(key, value)

    hub.put = changed  # type: ignore[method-assign]


def agreed_or_refused(work: Any, size: int = WORKERS) -> list[Any]:
    """What the workers agree on; none where one of them refuses, in one line that names the sender."""
    try:
        return run_threads(size, work)
    except (MessageError, InputError) as error:
        assert "\n" not in str(error) and ("from rank 0" in str(error) or "disagree" in str(error)), error
        return []
    except LateError as error:
        raise AssertionError("a worker waits for what never comes") from error


def inside(values: torch.Tensor, high: int) -> bool:
    return not values.numel() or (int(values.min()) >= 0 and int(values.max()) < high)


@fuzz
@given(wounds)
def test_covers(wound):
    def work(transport):
        shard = SHARDS[transport.rank]
        if transport.rank == 0:
            damaged(transport, wound)
        return Cover.agree(shard, shard.mean()[1], transport, once=False)

    for shard, cover in zip(SHARDS, agreed_or_refused(work), strict=False):
        assert inside(cover.sums.indices.long(), shard.num_boundary)
        assert inside(cover.lists.send_index, cover.lists.num_owned)
        assert cover.sums.num_rows == cover.lists.num_owned and sum(cover.lists.send_counts) == cover.back.num_cols
        for row in (cover.lists.ids >> 62 == 0).nonzero().flatten().tolist():
            (source,) = cover.sums.select_rows(torch.tensor([row])).indices.tolist()
            assert int(cover.lists.ids[row]) == int(shard.ids[source]), (
                "a row that travels is the one that was asked for"
            )


@fuzz
@given(wounds, st.booleans())
def test_rows_once_per_machine(wound, summed):
    def work(transport):
        shard, transport.machines = FOUR[transport.rank], MACHINES
        if transport.rank == 0:
            damaged(transport, wound)
        if summed:
            return shard, Cover.agree(shard, shard.mean()[1], transport, once=True)
        return shard, HandOn.agree(shard, transport, CPU)

    for shard, found in agreed_or_refused(work, len(MACHINES.of)):
        if summed:
            assert inside(found.sums.indices.long(), shard.num_boundary)
        elif found is not None:
            assert inside(found.carried, shard.num_halo) and inside(found.handed, found.carried.numel())
            assert torch.equal(found.order.sort().values, torch.arange(shard.num_halo))


@fuzz
@given(wounds, st.integers(1, 3))
def test_chunks(wound, count):
    def work(transport):
        shard = SHARDS[transport.rank]
        exchange = HaloExchange(shard, transport, CPU, Policy())
        if transport.rank == 0:
            damaged(transport, wound)
        own = torch.arange(shard.num_owned) * count // shard.num_owned
        return shard, Routes.of(shard, shard.mean()[1], own, count, exchange)

    for shard, routes in agreed_or_refused(work):
        assert inside(routes.transposed.indices.long(), routes.backward.size)
        assert routes.transposed.num_rows == shard.num_owned
        for route in (routes.forward, routes.backward):
            filled = torch.cat([rows for peer in route.take for rows in peer])
            assert torch.equal(filled.sort().values, torch.arange(route.size))


@fuzz
@given(wounds, st.sampled_from(["dense", "sparse", "words"]), st.booleans())
def test_rows_that_are_sent_once(wound, kind, squeezed):
    columns, count = 30, 5

    def work(transport):
        draw = torch.Generator().manual_seed(transport.rank)
        rows = torch.randn(count * 2, columns, generator=draw)
        if kind != "dense":
            kept = torch.rand(rows.shape, generator=draw) < 0.1
            rows = rows * kept if kind == "sparse" else kept.float()
        counts = [0 if peer == transport.rank else count for peer in range(WORKERS)]
        if transport.rank == 0:
            damaged(transport, wound)
        row, column = rows.nonzero(as_tuple=True)
        whole = Csr.from_edges(row, column, *rows.shape, None if kind == "words" else rows[row, column])
        return swap_once(whole, counts, counts, transport, squeezed=squeezed)

    for found in agreed_or_refused(work):
        assert found.num_rows == 2 * count and inside(found.indices.long(), columns)
        assert int(found.indptr[-1]) == found.indices.numel() and bool((found.indptr.diff() >= 0).all())


@fuzz
@given(st.integers(0, 5), st.integers(0, 8 * HEADER_BYTES - 1), st.integers(1, 4))
def test_a_changed_header_of_a_list_is_always_refused(which, bit, width):
    """The bit is flipped in the header of one of six messages, each of which is a list of another length."""

    def work(transport):
        if transport.rank == 0:
            put, seen = transport._hub.put, []

            def changed(key, value):
                if key[0] == "header":
                    if len(seen) == which:
                        value = value.clone()
                        value[bit // 8] ^= 1 << bit % 8
                    seen.append(key)
                put(key, value)

            transport._hub.put = changed
        for count in range(1, 7):
            first = transport.rank == 0
            sent, received = [0, count * first], [count * (not first), 0]
            transport.swap(torch.ones(sum(sent), width), sent, received, "here", epoch=7)

    with pytest.raises(MessageError, match=r"^at here, the message from rank 0 .*expected .*; .+"):
        run_threads(2, work)


class Half(RowCodec):
    """bf16, as a user would write it."""

    def row_bytes(self, columns):
        return 2 * columns

    def encode_rows(self, rows, draws):
        return rows.bfloat16().view(torch.uint8)

    def decode_rows(self, data, columns):
        return data.view(torch.bfloat16).float()


def message(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


@fuzz
@given(st.binary(max_size=120), st.integers(1, 30))
def test_bytes_for_a_codec_of_ones_own(data, columns):
    codec = Half()
    if len(data) % codec.row_bytes(columns):
        with pytest.raises(MessageError, match="the message was cut off"):
            codec.decode(message(data), columns)
    else:
        assert codec.decode(message(data), columns).shape == (len(data) // codec.row_bytes(columns), columns)


@fuzz
@given(st.data(), st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(1, 30))
def test_mixed_messages(data, counts, columns):
    rows = sum(counts)
    grades = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)), dtype=torch.int64)
    codecs = [codec for rate in (Rate(1), Rate(8), Rate(32)) if isinstance(codec := codec_of(rate), Uniform)]
    codec = Mixed(grades, codecs, tuple(counts), "1-bit and more minmax")
    size = sum(codec.sizes(counts, columns))
    length = data.draw(st.one_of(st.just(size), st.integers(0, 2 * size + 8)))
    sent = message(data.draw(st.binary(min_size=length, max_size=length)))
    matrix = Csr.from_edges(torch.arange(rows), torch.arange(rows), rows + 1, rows)
    total = torch.zeros(rows + 1, columns)
    if length == size:
        assert codec.decode(sent, columns).shape == (rows, columns)
        codec.aggregate(matrix, sent, columns, total)
        assert not total[-1].any(), "a row without edges stays as it was"
    else:
        for use in (lambda: codec.decode(sent, columns), lambda: codec.aggregate(matrix, sent, columns, total)):
            with pytest.raises(MessageError, match="the message was cut off"):
                use()
