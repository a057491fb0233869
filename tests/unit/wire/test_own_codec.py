"""A codec of one's own: the library's results with the library's codes, its bytes in the ledger, bad ones refused."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import torch_geometric.nn as pyg

import halowire
from halowire.errors import InputError
from halowire.events import EVAL, TRAIN
from halowire.pyg.shard_data import cut_data
from halowire.training import Situation, recipe_config, refuse
from halowire.wire import HEADER_BYTES, Draws, HaloExchange, Policy, RowCodec, Source, check_codec, run_threads
from tests.support.pyg_case import make_graph, make_owner
from tests.support.pyg_models import HIDDEN, two


class Plain(RowCodec):
    """float32, as the library sends it."""

    def row_bytes(self, columns):
        return 4 * columns

    def encode_rows(self, rows, draws):
        return rows.contiguous().view(torch.uint8)

    def decode_rows(self, data, columns):
        return data.view(torch.float32)


class Half(RowCodec):
    """bf16, as the recipe `half` sends it."""

    def row_bytes(self, columns):
        return 2 * columns

    def encode_rows(self, rows, draws):
        return rows.bfloat16().view(torch.uint8)

    def decode_rows(self, data, columns):
        return data.view(torch.bfloat16).float()


class Sign(RowCodec):
    """A byte per value, +-1 by chance."""

    def row_bytes(self, columns):
        return columns

    def encode_rows(self, rows, draws):
        return (draws.uniform(rows.shape[1]) < rows.sigmoid()).to(torch.uint8)

    def decode_rows(self, data, columns):
        return 2 * data.float() - 1


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return two(pyg.SAGEConv)


PASSES = 3


def train_here(transport, model, recipe: str, codec: RowCodec | None, plain: bool = False) -> dict[str, object]:
    data = cut_data(make_graph(), make_owner(transport.size), transport)
    model = halowire.distribute(
        copy.deepcopy(model), data, recipe, {"epochs": PASSES, "wire.plain": plain}, codec=codec
    )
    totals, sent, outs = transport.ledger.totals, [], []
    for _ in range(PASSES):
        before = totals[TRAIN]
        out = model(data.x, data.edge_index)
        data.mean(out.square()).backward()
        sent.append(totals[TRAIN] - before)
        outs.append(out.detach())
    model.eval()
    before = totals[EVAL]
    with torch.no_grad():
        outs.append(model(data.x, data.edge_index))
    rows = sum(data.shard.send_counts) + sum(data.shard.recv_counts)
    grads = [value.grad.clone() for value in model.parameters()]
    return {"outs": outs, "grads": grads, "sent": sent, "rows": rows, "eval": totals[EVAL] - before}


@pytest.mark.parametrize(
    ("codec", "under", "like"),
    [
        (Plain(), "exact", "exact"),
        (Plain(), "pipegcn", "pipegcn"),
        (Plain(), "varco", "varco"),
        (Plain(), "bns", "bns"),
        (Half(), "exact", "half"),
    ],
)
def test_it_gives_what_the_librarys_own_code_gives(model, codec, under, like):
    got = run_threads(3, lambda transport: train_here(transport, model, under, copy.deepcopy(codec)))
    want = run_threads(3, lambda transport: train_here(transport, model, like, None))
    for mine, theirs in zip(got, want, strict=True):
        assert mine["sent"] == theirs["sent"] and mine["eval"] == theirs["eval"]
        for a, b in zip(mine["outs"] + mine["grads"], theirs["outs"] + theirs["grads"], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_its_bytes_are_counted_and_a_run_repeats_bit_for_bit(model):
    first, again = (
        run_threads(2, lambda transport: train_here(transport, model, "exact", Sign(), True)) for _ in range(2)
    )
    for one, two_ in zip(first, again, strict=True):
        want = one["rows"] * HIDDEN + 2 * HEADER_BYTES
        assert one["sent"] == [want] * 3, "forward and backward, a byte for every value"
        for a, b in zip(one["outs"] + one["grads"], two_["outs"] + two_["grads"], strict=True):
            assert torch.equal(a, b)


def test_a_run_resumes_with_the_codec_it_had():
    def exchange(transport, codec):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        return HaloExchange(data.shard, transport, torch.device("cpu"), Policy(codec=codec))

    def resume(transport, before, now):
        exchange(transport, now).load_state(exchange(transport, before).state())

    for codec in (None, Plain()):
        run_threads(2, partial(resume, before=codec, now=copy.deepcopy(codec)))
    for before, now in ((None, Plain()), (Plain(), None), (Plain(), Half())):
        with pytest.raises(InputError, match="another codec"):
            run_threads(2, partial(resume, before=before, now=now))


def test_a_row_is_the_same_for_every_peer_and_with_chosen_columns():
    rows, ids = torch.randn(6, 10, generator=torch.Generator().manual_seed(1)), torch.arange(50, 56)
    index, columns = torch.tensor([4, 0, 4, 5]), torch.tensor([1, 3, 8])
    data = torch.empty(4 * 3, dtype=torch.uint8)
    Sign().encode(rows, Source(ids, index, None, columns, 9), data)
    want = Sign().encode_rows(rows[index][:, columns], Draws(9, ids[index]))
    assert torch.equal(data.view(4, 3), want)


def test_draws_are_uniform_and_belong_to_the_node():
    drawn = Draws(3, torch.arange(4000)).uniform(8)
    assert float(drawn.min()) >= 0 and float(drawn.max()) < 1
    # 32,000 numbers: the mean of a column is 0.5 within 6 standard errors of 1 / sqrt(12 * 4000).
    assert ((drawn.mean(0) - 0.5).abs() < 6 / (12 * 4000) ** 0.5).all()
    assert torch.equal(Draws(3, torch.tensor([77])).uniform(8)[0], drawn[77])
    assert not torch.equal(Draws(4, torch.tensor([77])).uniform(8)[0], drawn[77])


def changed(**methods) -> RowCodec:
    return type("Changed", (Plain,), methods)()


def counting(self, rows, draws):
    self.calls = getattr(self, "calls", 0) + 1
    return Plain.encode_rows(self, rows + self.calls, draws)


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        (object(), "expected an instance of halowire.RowCodec"),
        (changed(row_bytes=lambda self, columns: 0), "at least 1"),
        (changed(row_bytes=lambda self, columns: columns / 2), "whole number"),
        (changed(row_bytes=lambda self, columns: 4 * columns + 1), r"expected torch.uint8 \[8, 5\]"),
        (changed(encode_rows=lambda self, rows, draws: rows), "gives torch.float32"),
        (changed(encode_rows=lambda self, rows, draws: None), "gives NoneType"),
        (changed(decode_rows=lambda self, data, columns: data.view(torch.float32).double()), "gives torch.float64"),
        (changed(decode_rows=lambda self, data, columns: data.view(torch.float32) / 0), "NaN or infinity"),
        (changed(encode_rows=lambda self, rows, draws: Plain.encode_rows(self, rows.mul_(2), draws)), "work on a copy"),
        (changed(encode_rows=lambda self, rows, draws: Plain.encode_rows(self, torch.rand_like(rows), draws)), "draws"),
        (changed(encode_rows=counting), "keep nothing between messages"),
        (changed(encode_rows=lambda self, rows, draws: Plain.encode_rows(self, rows / len(rows), draws)), "row alone"),
        (changed(decode_rows=lambda self, data, columns: data.view(torch.float32) / len(data)), "row alone"),
    ],
)
def test_a_codec_that_breaks_a_promise_is_refused(codec, words):
    with pytest.raises(InputError, match=words):
        check_codec(codec)


def test_a_codec_that_touches_torchs_generator_is_refused():
    def encode_rows(self, rows, draws):
        torch.manual_seed(0)
        torch.rand(1)
        return Plain.encode_rows(self, rows, draws)

    with torch.random.fork_rng(), pytest.raises(InputError, match="torch's generator"):
        torch.manual_seed(1)
        check_codec(changed(encode_rows=encode_rows))


def test_workers_with_different_codecs_are_refused(model):
    with pytest.raises(InputError, match="gives other bytes on some workers"):
        run_threads(2, lambda transport: train_here(transport, model, "exact", (Plain(), Half())[transport.rank]))


def test_where_one_worker_refuses_all_do(model):
    bad = changed(row_bytes=lambda self, columns: 0)
    with pytest.raises(InputError, match=r"at least 1|another worker"):
        run_threads(2, lambda transport: train_here(transport, model, "exact", (Plain(), bad)[transport.rank]))


@pytest.mark.parametrize("recipe", ["half", "sylvie-s", "sylvie-a", "sylvie-3d", "halowire"])
def test_recipes_that_decide_on_the_bits_are_refused(recipe):
    with pytest.raises(InputError, match="decides on the bits"):
        refuse(recipe_config(recipe, own_model=True), Situation(caller="fit", codec=True))


def test_a_budget_is_refused():
    config = recipe_config("exact").replace({"rate.schedule": "budget", "rate.budget": 1e6})
    with pytest.raises(InputError, match="cannot plan"):
        refuse(config, Situation(caller="fit", codec=True))
