"""Weight gradients in pieces: the same sums as in one, launched while backward runs, in one order."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from halowire.training.flat import FlatGradients, cut_pieces
from halowire.wire import Transport


@pytest.mark.parametrize(
    ("sizes", "smallest", "starts"),
    [([5, 5, 1, 1, 8], 9, [3, 0]), ([4], 1, [0]), ([4, 4], 4, [1, 0]), ([4, 4], 100, [0]), ([9, 1, 1], 3, [0])],
)
def test_pieces_are_cut_from_the_end_and_cover_every_parameter_once(sizes, smallest, starts):
    assert cut_pieces(sizes, smallest) == starts


class Recorder(Transport):
    """Notes when every piece was launched: how many gradients were not there yet."""

    def __init__(self, parameters):
        super().__init__()
        self.parameters, self.launched = parameters, []

    def start_reduce(self, tensor, where, account=None):
        self.launched.append((tensor.numel(), [bool(p.grad.abs().sum()) for p in self.parameters]))
        return super().start_reduce(tensor, where, account)


def test_a_piece_leaves_when_its_gradients_are_complete_and_not_before():
    layers = [nn.Linear(4, 4, bias=False) for _ in range(3)]
    parameters = [layer.weight for layer in layers]
    transport = Recorder(parameters)
    flat = FlatGradients(parameters, 2, transport, smallest=64)
    for _ in range(2):  # the second pass must not remember the first
        transport.launched.clear()
        flat.zero()
        nn.Sequential(*layers)(torch.randn(3, 4)).sum().backward()
        assert [seen for _, seen in transport.launched] == [[False, False, True], [False, True, True]]
        assert flat.reduce([1.0, 2.0]) == [1.0, 2.0]
        assert [count for count, _ in transport.launched] == [16, 16, 18]


def reduced(rank, smallest):
    """The sums over all workers of the gradients of a small network that differs in its input on every worker."""
    torch.manual_seed(0)
    layers = [nn.Linear(6, 6) for _ in range(4)]
    parameters = [p for layer in layers for p in layer.parameters()]
    flat = FlatGradients(parameters, 1, Transport(), smallest=smallest)
    for epoch in range(2):
        flat.zero()
        nn.Sequential(*layers)(torch.full((2, 6), 1.0 + rank + epoch)).square().sum().backward()
        own = flat.gradients.clone() if smallest > 1 << 20 else None
        total = flat.reduce([float(rank)])
    return own, flat.gradients.clone(), total


@pytest.mark.parametrize("workers", [2, 3])
def test_the_sums_are_those_of_one_piece(on_workers, workers):
    whole = on_workers(workers, reduced, 1 << 30)
    expected = torch.stack([own for own, _, _ in whole]).double().sum(0)
    for smallest in (1, 100, 1 << 30):
        for _, gradients, total in on_workers(workers, reduced, smallest):
            assert (gradients.double() - expected).abs().max() <= 1e-6 * expected.abs().max()
            assert total == [float(sum(range(workers)))]
