"""halowire's Adam takes torch's steps, bit for bit, and does not load torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from halowire.training.adam import Adam

SHAPES = ((7, 5), (3,), (1,), (64, 33))


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(3)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def give_gradients(weights: list[nn.Parameter], step: int) -> None:
    """Gradients of many sizes; the second weight has none in the first two steps."""
    generator = torch.Generator().manual_seed(step)
    for place, weight in enumerate(weights):
        gradient = torch.randn(weight.shape, generator=generator) * 10.0 ** (place - 2)
        weight.grad = None if place == 1 and step < 2 else gradient


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_torch(decay: float) -> None:
    mine, theirs = parameters(), parameters()
    own, torchs = Adam(mine, 0.01, decay), torch.optim.Adam(theirs, lr=0.01, weight_decay=decay, foreach=True)
    for step in range(6):
        give_gradients(mine, step)
        give_gradients(theirs, step)
        own.lr = torchs.param_groups[0]["lr"] = 0.01 / (1 + step)
        own.step()
        torchs.step()
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    states = torchs.state_dict()["state"]
    assert own.states.keys() == states.keys()
    for place, state in own.states.items():
        assert state.keys() == states[place].keys()
        assert all(torch.equal(state[key], states[place][key]) for key in state)


def test_loaded_states_are_copies_and_go_on() -> None:
    mine, theirs = parameters(), parameters()
    first, second = Adam(mine, 0.01), Adam(theirs, 0.01)
    give_gradients(mine, 2)
    first.step()
    with torch.no_grad():
        for a, b in zip(theirs, mine, strict=True):
            a.copy_(b)
    second.load(first.states)
    for optimiser, weights in ((first, mine), (second, theirs)):
        give_gradients(weights, 3)
        optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert all(float(state["step"]) == 2 for state in second.states.values())


def test_nothing_to_step_is_no_error() -> None:
    optimiser = Adam([], 0.01)
    optimiser.step()
    weight = nn.Parameter(torch.ones(2))
    idle = Adam([weight], 0.01)
    idle.step()
    assert not optimiser.states and not idle.states and torch.equal(weight, torch.ones(2))


def test_the_compiler_is_not_loaded() -> None:
    code = (
        "import sys, torch; from halowire.training.adam import Adam; w = torch.nn.Parameter(torch.ones(3));"
        "w.grad = torch.ones(3); Adam([w], 0.1).step(); assert float(w.detach()[0]) < 1;"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
