"""Rows of a device by way of the host and Gloo: the CPU's results and bytes, few waits, no race with a copy.

Gloo never sees the device's memory. A copy to the host runs in a stream of its own, so that its source must be
computed before it, held, and left as it is until it is over; each of these rules is proven by a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from halowire.training import RECIPES
from halowire.wire import Circle, PinnedTransport, Transport, transport_pinned
from tests.support.allowed import allowed, refused
from tests.support.device_case import Outcome, config_of, few_waits, same_run, train_both
from tests.support.sim import SIM, DeviceError, pinned_simulated
from tests.support.sim.device_module import SimEvent
from tests.support.sim.sim_stream import SimStream

MOST_WAITS = 3
"""As with NCCL: the loss and all that is decided by it, the clock, the errors of the codes."""


def _staged(rank: int, *settings: Any) -> tuple[Outcome, Outcome]:
    """Train with messages that are cut into pieces from 64 bytes on."""
    whole, transport_pinned.CUT_BYTES = transport_pinned.CUT_BYTES, 64
    try:
        return train_both(rank, *settings, network=pinned_simulated)
    finally:
        transport_pinned.CUT_BYTES = whole


def _check(on_sim: Callable[..., list[Any]], sums: int, model: str, recipe: str, more: dict[str, Any]) -> None:
    """Assert the CPU's results; ``sums`` over all workers make the host wait in an epoch, in addition to the usual.

    Rows make it wait for the network only: a thread of its own waits for their copies.
    """
    both = on_sim(_staged, config_of(model, recipe, **more))
    same_run(both)
    few_waits(both, MOST_WAITS + sums)


QUICK: list[tuple[int, str, str, dict[str, Any]]] = [
    (1, "sage", "pipegcn", {"rate__weights": 8}),
    (1, "gcnii", "gnnpipe", {"model__layers": 4, "mesh__chunks": 3, "optim__clip": 1.0}),
]
"""Delayed messages to all peers with coded weight gradients, and stages with two kinds of rows."""


@pytest.mark.parametrize(("sums", "model", "recipe", "more"), QUICK, ids=[f"{m} {r}" for _, m, r, _ in QUICK])
def test_rows_travel_through_the_host(
    on_sim: Callable[..., list[Any]], sums: int, model: str, recipe: str, more: dict[str, Any]
) -> None:
    _check(on_sim, sums, model, recipe, more)


RECIPES_OF_TWO = [name for name in RECIPES if allowed(config_of("sage", name, model__layers=4))]
"""All recipes that two workers can run."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES_OF_TWO)
def test_every_recipe(on_sim: Callable[..., list[Any]], recipe: str) -> None:
    _check(on_sim, 1, "sage", recipe, {"model__layers": 4})


def _break(fault: str, patch: pytest.MonkeyPatch) -> None:
    """Put ``fault`` into the transport."""
    if fault == "no wait for a copy":
        patch.setattr(SimEvent, "synchronize", lambda self: None)
    elif fault == "no order of streams":
        patch.setattr(SimStream, "wait_stream", lambda self, other: None)
    elif fault == "rows let go":
        copy_out = PinnedTransport._copy_out
        patch.setattr(PinnedTransport, "_copy_out", lambda self, send, *to: copy_out(self, send.clone(), *to))
    elif fault == "rows overwritten":
        patch.setattr(PinnedTransport, "_send", lambda self, *given: ())  # the copy stays under way
        patch.setattr(PinnedTransport, "settle", lambda self, send=None: None)


def _told(rank: int, fault: str) -> str:
    """What arrives of two messages of the other worker, or what the simulated device says to ``fault``."""
    try:
        with pinned_simulated(), pytest.MonkeyPatch.context() as patch:
            # Groups of its own: messages may be left behind in them.
            transport = PinnedTransport(deadline=20, circle=Circle.of(range(2), 20), device=torch.device(SIM, 0))
            _break(fault, patch)
            return str(_swapped(transport, one_buffer=fault in ("", "rows overwritten")))
    except DeviceError as error:
        return str(error)


def _swapped(transport: Transport, one_buffer: bool) -> list[list[int]]:
    """Send two messages to the other worker; what arrives from it."""
    sizes = [0 if peer == transport.rank else 4 for peer in range(2)]
    rows = torch.zeros(2, 4, dtype=torch.uint8, device=SIM)
    under_way = []
    for number, room in enumerate(torch.zeros(2, 4, dtype=torch.uint8, device=SIM).unbind()):
        send = rows[0 if one_buffer else number]
        transport.settle(send)
        send.fill_(10 * number + transport.rank)
        under_way.append(transport.all_to_all(send, sizes, room, sizes, "the message"))
    found = [transport.wait(pending).tolist() for pending in under_way]
    transport.settle()
    return found


FAULTS = {
    "": "[[{peer}, {peer}, {peer}, {peer}], [1{peer}, 1{peer}, 1{peer}, 1{peer}]]",
    "no wait for a copy": "race: memory of a copy to the host is let go before its wait",
    "no order of streams": "race: a stream reads rows before it has waited for the stream that computes them",
    "rows let go": "race: memory of a copy to the host is let go before its wait",
    "rows overwritten": "race: aten.fill_.Scalar writes memory that is sent in a copy to the host, before its wait",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_copy_to_the_host_is_waited_for_and_its_rows_are_held(on_sim: Callable[..., list[Any]], fault: str) -> None:
    assert on_sim(_told, fault) == [FAULTS[fault].format(peer=1 - rank) for rank in range(2)]


def test_the_rules_leave_every_recipe_but_the_hybrid_to_two_workers() -> None:
    assert not refused(config_of(model, recipe, **more) for _, model, recipe, more in QUICK)
    assert set(RECIPES) - set(RECIPES_OF_TWO) == {"hybrid"}
