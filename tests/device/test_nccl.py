"""The transport for NCCL, on a stand-in that keeps NCCL's rules; every check is proven by a fault put in on purpose."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from halowire.errors import LateError
from halowire.schedules import Mesh, Seat
from halowire.training import Config
from halowire.wire import FORWARD, NcclTransport, Policy, StageLink, Transport
from halowire.wire.memory import Memory
from tests.support.device_case import config_of, train_on
from tests.support.order_watch import Post, wrong_meetings
from tests.support.sim import SIM, DeviceError, nccl_here, nccl_simulated, transport_of

KINDS = 2
PLACES = [slice(0, 3), slice(3, 7), slice(7, 8)]


def _trained(rank: int, config: Config, fault: str) -> str:
    """Train with ``fault``; what the simulated device says to it."""
    buffer, wait, settle, together = Memory.buffer, NcclTransport.wait, Transport.settle, NcclTransport._together
    if fault == "one buffer for all layers":
        Memory.buffer = lambda self, nbytes, *key: buffer(self, nbytes, key[1:2], key[-1])  # type: ignore
    elif fault == "no wait":
        NcclTransport.wait = lambda self, pending: pending.received  # type: ignore
    elif fault == "rows that nobody holds":
        NcclTransport._together = lambda self, send, *to: together(self, send.clone(), *to)  # type: ignore
    try:
        with nccl_simulated(apart=True):
            train_on(SIM, config)
    except DeviceError as error:
        return str(error)
    finally:
        Memory.buffer, NcclTransport.wait, Transport.settle = buffer, wait, settle  # type: ignore
        NcclTransport._together = together  # type: ignore
    return "nothing was found"


@pytest.mark.parametrize("fault", ["one buffer for all layers", "no wait", "rows that nobody holds"])
def test_a_buffer_that_is_touched_before_the_wait_is_found(on_sim: Callable[..., list[Any]], fault: str) -> None:
    for said in on_sim(_trained, config_of("sage", "pipegcn"), fault):
        assert said.startswith("race: ") and "before its wait" in said, said


def _linked(rank: int, fault: str) -> tuple[list[list[float]], list[Post], str]:
    """Send three chunks of two kinds from rank 0 to rank 1 by stage links; what arrived on rank 1, and what is said."""
    said, wait = "", NcclTransport.wait
    if fault == "no wait":
        NcclTransport.wait = lambda self, pending: pending.received  # type: ignore
    try:
        with nccl_simulated(apart=True):
            nccl = nccl_here()
            transport = transport_of(SIM)
            Seat.of(Mesh(2, 1, 3), transport)
            links = [
                StageLink(transport, 1 - rank, 2, kind, torch.arange(8).to(SIM), Policy()) for kind in range(KINDS)
            ]
            rows = [torch.arange(32.0, device=SIM).view(8, 4) + 100 * kind for kind in range(KINDS)]
            into = [torch.zeros(8, 4, device=SIM) for _ in links]
            if rank == 0:
                _send_all(links, rows)
                for link in links:
                    link.settle()
                rows[0].zero_()
            else:
                _expect_all(links, into, fault)
                if fault == "read before it is taken":
                    into[1][PLACES[2]].sum()
                for number, at in enumerate(PLACES):
                    for link, matrix in zip(links, into, strict=True):
                        link.take(number)
                        link.unpack(at)
                        matrix[at].sum()
            transport.drain()
            found = [matrix.tolist() for matrix in into]
    except DeviceError as error:
        return [], nccl.posts, str(error)
    finally:
        NcclTransport.wait = wait  # type: ignore
    return found, nccl.posts, said


def _send_all(links: list[StageLink], rows: list[Tensor]) -> None:
    for number, at in enumerate(PLACES):
        for link, matrix in zip(links, rows, strict=True):
            link.send(matrix[at], number, at, FORWARD, 4)


def _expect_all(links: list[StageLink], into: list[Tensor], fault: str) -> None:
    order = [(number, kind) for number in range(len(PLACES)) for kind in range(KINDS)]
    if fault == "link by link":
        order.sort(key=lambda place: place[1])
    for number, kind in order:
        links[kind].expect(number, PLACES[number], into[kind], FORWARD, 4)


def test_chunks_travel_between_two_stages_in_one_order_without_tags(on_sim: Callable[..., list[Any]]) -> None:
    (_, sent, _), (arrived, taken, said) = on_sim(_linked, "")
    want = [(torch.arange(32.0).view(8, 4) + 100 * kind).tolist() for kind in range(KINDS)]
    assert arrived == want and not said
    assert len(sent) == len(taken) == 6 and not wrong_meetings([sent, taken])


def test_receives_in_another_order_are_found(on_sim: Callable[..., list[Any]]) -> None:
    (_, sent, _), (_, taken, said) = on_sim(_linked, "link by link")
    assert "meets another message of rank 0" in said
    assert len(wrong_meetings([sent, taken])) == 4


@pytest.mark.parametrize("fault", ["read before it is taken", "no wait"])
def test_rows_of_a_stage_link_that_are_read_too_early_are_found(on_sim: Callable[..., list[Any]], fault: str) -> None:
    _, (_, _, said) = on_sim(_linked, fault)
    assert said.startswith("race: ") and "reads memory that arrives in epoch 4, stage link into layer 2" in said, said


def _summed(rank: int, names: tuple[str, str]) -> tuple[list[Post], str]:
    """Launch two sums of as many values on all workers, on rank 1 in the other order; what was posted and said."""
    try:
        with nccl_simulated(apart=True):
            nccl = nccl_here()
            transport = transport_of(SIM)
            order = names if rank == 0 else names[::-1]
            launched = [transport.start_reduce(torch.ones(4, device=SIM), where) for where in order]
            for pending in launched:
                transport.wait(pending)
            transport.drain()
    except DeviceError as error:
        return nccl.posts, str(error)
    return nccl.posts, ""


def test_collectives_in_another_order_are_found(on_sim: Callable[..., list[Any]]) -> None:
    (first, said), (second, _) = on_sim(_summed, ("gradients of layer 1", "gradients of layer 2"))
    assert "meets another message of rank 1" in said, said
    found = wrong_meetings([first, second])
    assert len(found) == 2 and "rank 1 beside rank 0, number " in found[0], found
    (first, said), (second, _) = on_sim(_summed, ("gradients of all layers", "gradients of all layers"))
    assert not said and not wrong_meetings([first, second])


def _refused(rank: int) -> list[str]:
    """What the stand-in says to operations that NCCL does not take, or that would stop the host."""
    said = []
    with nccl_simulated():
        x, kept, host = torch.ones(4, device=SIM), torch.ones(4, device=SIM), torch.ones(4)
        world = dist.group.WORLD
        faults: list[Callable[[], Any]] = [
            lambda: dist.all_to_all_single(x, host, [2, 2], [2, 2], async_op=True),
            lambda: dist.all_to_all_single(x.clone(), x, [2, 2], [2, 2]),
            lambda: dist.all_reduce(torch.ones(4, 4, device=SIM).t()[1:], async_op=True),
            lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank, world, tag=3)]),
            lambda: dist.isend(x, 1 - rank),
            lambda: dist.all_reduce(kept, async_op=True).wait(5.0),
        ]
        for fault in faults:
            try:
                fault()
            except DeviceError as error:
                said.append(str(error))
    return said


def test_what_nccl_does_not_take_is_refused(on_sim: Callable[..., list[Any]]) -> None:
    for said in on_sim(_refused):
        assert len(said) == 6, said


def _alone(rank: int) -> tuple[str, float]:
    """Rank 1 does not come to the third message; what rank 0 says, and after how many seconds."""
    with nccl_simulated(apart=True):
        transport = transport_of(SIM, deadline=1.5)
        rows = torch.ones(3, device=SIM)
        transport.all_reduce(rows, "epoch 3, layer 1, forward")
        start, said = time.monotonic(), ""
        if rank == 0:
            try:
                pending = transport.start_reduce(rows, "epoch 3, layer 2, forward")
                transport.wait(pending)
            except LateError as error:
                said = str(error)
            try:
                transport.read(torch.zeros(1, device=SIM))
            except LateError:
                said += " (also when a value is read)"
        else:
            time.sleep(4)
            transport.start_reduce(rows, "epoch 3, layer 2, forward")
        return said, time.monotonic() - start


def test_a_late_worker_is_named_although_the_host_does_not_wait(on_sim: Callable[..., list[Any]]) -> None:
    said, seconds = on_sim(_alone)[0]
    assert said.startswith("rank 0 gave up waiting at epoch 3, layer 2, forward after 1."), said
    assert "no word from rank 1: late or gone" in said and said.endswith("(also when a value is read)")
    assert seconds < 4
