"""Workers that put a checkpoint's tensors back go through them in one order, whatever order they were read in."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from safetensors.torch import save
from torch import nn

from halowire.training.checkpoint_choice import parse_tensors
from halowire.training.run_state import _Whole
from halowire.wire import Transport


def test_tensors_are_read_in_the_order_of_their_names():
    names = [f"optim.{place}.{key}" for place in range(40) for key in ("step", "exp_avg", "exp_avg_sq")]
    assert list(parse_tensors(save({name: torch.zeros(2) for name in names}))) == sorted(names)


class Rows(nn.Module):
    """Two weights with a row for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.bias = nn.Parameter(torch.zeros(4, 3)), nn.Parameter(torch.zeros(4, 2))


def asked(places: list[int], keys: list[str]) -> list[tuple[str, tuple[int, ...]]]:
    """What the workers gather, one after the other, where the state was put back in the order of these lists."""
    model, seen = Rows(), []

    def whole_rows(name, value):
        seen.append((name, float(value.flatten()[0])))
        return value

    parameters = dict(model.named_parameters())
    runner = SimpleNamespace(
        model=model, parameters=parameters, peers=Transport(), row_weights=frozenset(parameters), whole_rows=whole_rows
    )
    state = {place: {key: torch.full((4, 3 - place), float(len(key))) for key in keys} for place in places}
    optimiser = SimpleNamespace(states=state)
    _Whole(runner, Transport()).optimiser(optimiser)
    return seen


def test_rows_of_the_optimiser_are_gathered_in_one_order():
    assert asked([0, 1], ["exp_avg", "exp_avg_sq"]) == asked([1, 0], ["exp_avg_sq", "exp_avg"])
