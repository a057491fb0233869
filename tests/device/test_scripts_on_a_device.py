"""A script's own training loop on a device: what it says at the start, and what it refuses."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_geometric.data import HeteroData

from halowire.errors import InputError
from halowire.launch import script
from halowire.pyg.hetero_data import shard_hetero
from halowire.pyg.own_rows import plain
from halowire.pyg.shard_data import cut_data
from tests.support.sim import SIM, Simulation, transport_of

NODES, EDGES = 600, 3000


def _said(rank: int, device: str) -> str:
    """What a script on ``device`` prints as it joins the others over its own process group."""
    with Simulation(), contextlib.redirect_stderr(io.StringIO()) as said:
        script._on_own_group(torch.device(device), 30.0)
    return said.getvalue()


def test_the_first_worker_of_a_script_names_its_device(on_sim: Callable[..., list[Any]]) -> None:
    first, second = on_sim(_said, SIM)
    assert first.startswith("halowire: 2 workers on sim, a GPU each (this one: sim, simulated device); Gloo between")
    assert first.count("\n") == 1 and not second
    assert on_sim(_said, "cpu") == ["", ""]


def _graphs() -> tuple[dict[str, Any], HeteroData, torch.Tensor]:
    torch.manual_seed(3)
    x, edge_index = torch.randn(NODES, 100), torch.randint(0, NODES, (2, EDGES))
    hetero = HeteroData()
    hetero["author"].x = x
    hetero["author", "knows", "author"].edge_index = edge_index
    return {"x": x, "edge_index": edge_index}, hetero, torch.arange(NODES) % 2


def _crowded(rank: int, capacities: list[int]) -> list[str]:
    """What is said where a part is put on devices, that of each worker with so many bytes."""
    tensors, hetero, owner = _graphs()
    device = torch.device(SIM, 0)
    cuts = [
        lambda transport: cut_data(tensors, owner, transport, device),
        lambda transport: shard_hetero(hetero, "random", 0, transport, device),
    ]
    heard = []
    with Simulation() as simulation, pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation.module, "mem_get_info", lambda device=None: (capacities[rank], capacities[rank]))
        for cut in cuts:
            try:
                cut(transport_of(SIM))
            except InputError as error:
                heard.append(str(error))
            else:
                heard.append("")
    return heard


def test_a_part_that_does_not_fit_is_refused_by_all_before_it_is_put_there(on_sim: Callable[..., list[Any]]) -> None:
    assert on_sim(_crowded, [1 << 20, 1 << 20]) == [["", ""]] * 2
    heard = on_sim(_crowded, [1 << 20, 1 << 16])
    assert heard[0] == heard[1]
    for said in heard[0]:
        assert said.startswith("rank 1 needs at least 1") and "KiB of memory on sim:0 (features 117 KiB, edges " in said
        assert said.endswith("but 64.0 KiB are free; use more workers, a smaller model, or --device cpu")


def _picked(rank: int) -> list[tuple[int, bool]]:
    """How often the host waits as rows are picked by the part's own mask, and whether they are the right ones."""
    tensors, _, owner = _graphs()
    tensors |= {"y": torch.arange(NODES), "train_mask": torch.arange(NODES) % 3 == 0}
    found = []
    with Simulation() as simulation:
        data = cut_data(tensors, owner, transport_of(SIM), torch.device(SIM, 0))
        for change in (False, False, True):
            if change:
                data.train_mask[:] = ~data.train_mask
            before = simulation.counts.waits.total()
            picked = data.y[data.train_mask]
            waits = simulation.counts.waits.total() - before
            wanted = data.rows[(data.rows % 3 == 0) ^ change]
            found.append((waits, torch.equal(plain(picked).cpu(), wanted)))
    return found


def test_a_mask_of_the_part_is_looked_at_once_while_it_is_unchanged(on_sim: Callable[..., list[Any]]) -> None:
    assert on_sim(_picked) == [[(1, True), (0, True), (1, True)]] * 2
