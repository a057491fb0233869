"""Flags, texts and choices of a model that a script changes after it was distributed are rehearsed, and so are refused
where they would be wrong; counters and what forward itself notes are left out."""

from __future__ import annotations

import copy
from argparse import Namespace
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.distribute import state_of
from halowire.pyg.modes import MOST, VALUES, Modes, modes_of
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, assert_close, make_graph, place, seeded
from tests.support.worker_counts import two_and_three


class Way(Enum):
    ROWS = 1
    CENTRED = 2


@dataclass
class Settings:
    mode: str = "rows"


class Staged(nn.Module):
    """Centres its rows over all nodes where one of its modes says so, which no worker can do by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = pyg.SAGEConv(FEATURES, CLASSES), pyg.SAGEConv(CLASSES, CLASSES)
        self.norm: nn.Module | None = nn.Identity()
        self.center, self.stage, self.way, self.limit = False, "rows", Way.ROWS, None
        self.cfg: dict[str, Any] = {"mode": "rows", "deep": [{"mode": "rows"}], "table": torch.zeros(2)}
        self.args, self.space, self.settings = Namespace(mode="rows"), SimpleNamespace(mode="rows"), Settings()
        self.more = False
        self.steps, self.seen, self.note = 0, False, ""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.steps += 1
        self.seen = not self.seen
        h = self.one(x, edge_index)
        if self.more:
            h = self.two(h.relu(), edge_index)
        texts = self.cfg["mode"], self.cfg["deep"][0]["mode"], self.args.mode, self.space.mode, self.settings.mode
        named = "centred" in (self.stage, self.one.note if hasattr(self.one, "note") else "", *texts)
        kept = self.norm is not None and self.limit is None
        return h if kept and not (named or self.center or self.way is Way.CENTRED) else h - h.mean(0)


CHANGES = {
    "flag": lambda model: setattr(model, "center", True),
    "text": lambda model: setattr(model, "stage", "centred"),
    "choice": lambda model: setattr(model, "way", Way.CENTRED),
    "number instead of None": lambda model: setattr(model, "limit", 3),
    "dictionary": lambda model: model.cfg.update(mode="centred"),
    "list in a dictionary": lambda model: model.cfg["deep"][0].update(mode="centred"),
    "arguments": lambda model: setattr(model.args, "mode", "centred"),
    "name space": lambda model: setattr(model.space, "mode", "centred"),
    "data class": lambda model: setattr(model.settings, "mode", "centred"),
    "attribute of a layer": lambda model: setattr(model.one, "note", "centred"),
    "layer left out": lambda model: setattr(model, "norm", None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_mode_that_needs_all_rows_is_refused_when_it_is_set_later(change):
    def here(transport):
        data, model = place(transport, seeded(Staged))
        model(data.x, data.edge_index)
        twin = copy.deepcopy(model)
        CHANGES[change](model)
        with pytest.raises(InputError, match="does not equal the whole model"):
            model(data.x, data.edge_index)
        twin(data.x, data.edge_index)

    run_threads(2, here)


@two_and_three
def test_modes_by_turns_equal_plain_pyg_and_each_is_rehearsed_once(workers):
    """One of them has an exchange more."""
    graph, plain = make_graph(), seeded(Staged)
    want = []
    for more in (True, False):
        plain.more = more
        plain.zero_grad()
        out = plain(graph["x"], graph["edge_index"])
        out.square().mean().backward()
        want.append(
            (out.detach(), [None if value.grad is None else value.grad.clone() for value in plain.parameters()])
        )

    def here(transport):
        data, model = place(transport, seeded(Staged))
        for more in (True, False, True, False):
            model.more = more
            model.zero_grad()
            out = model(data.x, data.edge_index)
            data.mean(out.square()).backward()
            whole, grads = want[not more]
            assert_close("output", data.gather(out), whole)
            for value, grad in zip(model.parameters(), grads, strict=True):
                assert (value.grad is None) == (grad is None)
                if grad is not None:
                    assert_close("gradient", value.grad, grad)
        return len(state_of(model)._checked)

    assert run_threads(workers, here) == [2] * workers


def test_counters_and_what_forward_notes_are_no_modes():
    """Also where one worker alone notes it; a text that changes in every step is left out after a while."""

    def here(transport):
        data, model = place(transport, seeded(Staged))
        with torch.no_grad():
            for epoch in range(3):
                model.epoch = epoch
                model.seen = model.seen or transport.rank == 1
                model(data.x, data.edge_index)
        return len(state_of(model)._checked)

    assert run_threads(2, here)[0] <= 2


def test_a_text_that_changes_in_every_step_is_left_out_after_a_while():
    model = Staged()
    modes, texts = Modes(model), set()
    for step in range(3 * VALUES):
        model.note = f"step {step}"
        model.cfg["table"] = torch.ones(step)
        texts.add(modes.before(model))
        modes.after(model)
    assert len(texts) == VALUES - 1
    model.stage = "other"
    assert modes.before(model) not in texts
    model.stage = "rows"
    assert modes.before(model) in texts


def test_large_lists_are_data_and_caches_of_pyg_are_left_out():
    model = Staged()
    before = modes_of(model)
    model.words, model.one._cached_edge_index, model.numbers = ["a"] * (MOST + 1), None, [1, 2]
    assert modes_of(model) == before


def test_a_rehearsal_keeps_what_a_dictionary_holds_beside_its_modes():
    model = Staged()
    pristine, modes = copy.deepcopy(model), Modes(model)
    assert modes.applied(pristine, model) is pristine
    model.cfg["mode"], model.cfg["new"], model.steps = "other", "word", 7
    modes.before(model)
    own = modes.applied(pristine, model)
    assert own.cfg["mode"] == "other" and own.cfg["new"] == "word" and own.steps == 7
    assert own.cfg["table"] is not model.cfg["table"] and own.cfg is not model.cfg
    assert pristine.cfg["mode"] == "rows" and own.args.mode == "rows"
