"""The simulated device finds what a GPU would refuse or wait for, each proven by a fault that is put in on purpose."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from tests.support.sim import DeviceError, Simulation


class _Faulty(Function):
    """``x w``, whose backward reads a value of the device."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        float(grads[0].sum())
        return grads[0] * w, (grads[0] * x).sum(0)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.w = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(_Faulty.apply(self.linear(x), self.w)).relu()


def _train(net: nn.Module, x: Tensor) -> Tensor:
    optimiser = torch.optim.Adam(net.parameters(), foreach=True)
    for _ in range(3):
        optimiser.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimiser.step()
    return loss.detach()


def _trained(rank: int) -> None:
    torch.manual_seed(0)
    net, x = _Net(), torch.randn(16, 8)
    other = copy.deepcopy(net)
    want = _train(net, x)
    with Simulation() as simulation:
        other.to("sim")
        x = x.to("sim")
        begun = simulation.counts.waits.total()
        got = _train(other, x)
        waits = simulation.counts.waits.total() - begun
        assert got.device.type == "sim" and torch.equal(got.cpu(), want)
        assert all(torch.equal(a.cpu(), b) for a, b in zip(other.parameters(), net.parameters(), strict=True))
    # The read in backward is found, once per step, with its file and line; nothing else waits.
    assert waits == 3
    (place,) = [where for kind, where in simulation.counts.waits if kind == "read of a value"]
    line = _Faulty.backward.__code__.co_firstlineno + 3
    assert place == f"device/test_sim_device.py:{line}"


def test_a_model_trains_as_on_the_cpu_and_a_read_in_backward_is_found(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_trained)


def _refused(rank: int) -> None:
    with Simulation():
        x, cpu = torch.ones(4, 3, device="sim"), torch.ones(4, 3)
        rows = torch.arange(2)
        faults: list[Callable[[], Any]] = [
            lambda: x + cpu,
            lambda: cpu.mul_(x),
            lambda: torch.mm(x, cpu.t()),
            lambda: torch.mm(x, x.t(), out=torch.empty(4, 4)),
            lambda: x.index_select(0, rows),
            lambda: cpu[rows.to("sim")],
            lambda: x.index_put_((rows.to("sim"),), cpu[:2]),
            lambda: torch.cat([x, cpu]),
            x.numpy,
            lambda: dist.all_to_all_single(x, cpu),
        ]
        for number, fault in enumerate(faults):
            try:
                fault()
            except DeviceError:
                continue
            raise AssertionError(f"fault {number} was not refused")
        # A number travels along with the operation.
        assert (x + torch.tensor(2.0)).sum().item() == 36


def test_tensors_of_two_memories_do_not_meet(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_refused)


def _counted(rank: int) -> None:
    with Simulation() as simulation:
        x = torch.arange(12.0, device="sim").view(4, 3)
        host, rows = torch.zeros(4, 3), torch.tensor([2, 0])
        counts, mask, device_rows = simulation.counts, x[:, 0] > 2, rows.to("sim")
        waiting: dict[str, Callable[[], Any]] = {
            "read of a value": lambda: float(x[1, 1]),
            "equal": lambda: torch.equal(x, x),
            "nonzero": mask.nonzero,
            "mask as index": lambda: x[mask],
            "CPU index": lambda: x[rows],
            "unique": lambda: torch.unique(x),
            "bincount": lambda: torch.bincount(device_rows),
            "repeat_interleave without output_size": lambda: x.repeat_interleave(torch.ones_like(x[:, 0]).long(), 0),
            "copy to the host": x.cpu,
            "copy to the device": lambda: x.copy_(host),
            "to_sparse": lambda: torch.ops.aten._to_sparse_csr(x),
        }
        for kind, wait in waiting.items():
            before = counts.waits.total()
            wait()
            added = {place[0] for place in counts.waits} if counts.waits.total() == before + 1 else set()
            assert kind in added, f"{kind}: {counts.report()}"
        # None of these needs the host to wait.
        before, copies = counts.waits.total(), counts.copies.total()
        x.copy_(torch.zeros(4, 3, pin_memory=True), non_blocking=True)
        assert counts.copies.total() == copies + 1 and counts.waits.total() == before
        x.copy_(host, non_blocking=True)
        assert counts.waits.total() == before + 1, "memory that is not pinned is staged"
        before = counts.waits.total()
        x[device_rows] = 1.0
        x.index_add_(0, device_rows, torch.ones(2, 3, device="sim"))
        torch.repeat_interleave(x, torch.ones(4, dtype=torch.int64, device="sim"), 0, output_size=4)
        x[1:3].zero_()
        x.clamp_(max=1.0).sum().sqrt()
        assert counts.waits.total() == before, counts.report()
        assert x.tolist()[0] == [1.0, 1.0, 1.0] and x.tolist()[1] == [0.0, 0.0, 0.0]
        assert math.isfinite(x.data_ptr()) and x[1:].data_ptr() != x.data_ptr()


def test_every_wait_and_copy_is_counted_by_its_kind(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_counted)


def _sent(rank: int) -> None:
    with Simulation() as simulation:
        total = torch.full((3,), float(rank + 1), device="sim")
        dist.all_reduce(total)
        assert total.tolist() == [3.0, 3.0, 3.0]
        got = torch.empty(2, device="sim")
        dist.all_to_all_single(got, torch.tensor([10.0, 11.0], device="sim") + rank)
        assert got.tolist() == [10.0 + rank, 11.0 + rank]
    assert simulation.counts.messages.total() == 2
    assert all(where.startswith("device/test_sim_device.py") for _, where in simulation.counts.messages)


def test_messages_travel_from_the_memory_of_the_device(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_sent)


def _left(rank: int) -> None:
    with Simulation() as simulation:
        x = torch.ones(3, device="sim")
    before = simulation.counts.waits.total()
    assert (x + x).sum().item() == 6  # as in a thread that did not enter the simulation
    assert simulation.counts.waits.total() == before + 1
    assert torch.zeros(2).device.type == "cpu"


def test_tensors_that_outlive_the_block_keep_its_rules(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_left)
