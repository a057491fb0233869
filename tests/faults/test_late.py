"""A worker that does not come: the others give up at the deadline and say who, and where."""

from __future__ import annotations

import multiprocessing
import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from halowire.errors import LateError
from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.wire import HaloExchange, Transport


def work(rank: int, folder: str, fault: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.FileStore(str(Path(folder, "store")), 3)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=3, timeout=timedelta(seconds=60))
    transport = Transport(deadline=3)
    graph = block_model(60, 300, 4, 3, seed=1)
    shard = cut(graph, partition(graph, 3, method="random"))[rank]
    exchange = HaloExchange(shard, transport, torch.device("cpu"))
    said = "finished"
    try:
        for layer in (1, 2):
            if rank == 2 and layer == 2:
                if fault == "killed":
                    os._exit(1)
                wait_for(Path(folder, "said-0"), Path(folder, "said-1"))  # it comes when the others have given up
                os._exit(0)
            out = torch.zeros(shard.num_owned, 4)
            exchange.finish(exchange.start(torch.ones(shard.num_owned, 4), layer), shard.halo, out)
    except LateError as error:
        said = str(error)
    Path(folder, f"said-{rank}").write_text(said)
    os._exit(0)


def wait_for(*files: Path) -> None:
    end = time.monotonic() + 40
    while not all(file.exists() for file in files) and time.monotonic() < end:
        time.sleep(0.05)


def run(tmp_path: Path, fault: str) -> str:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(rank, str(tmp_path), fault)) for rank in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode is not None, "a worker hangs"
    return Path(tmp_path, "said-0").read_text()


def test_a_late_worker_is_named(tmp_path):
    said = run(tmp_path, "late")
    assert "rank 0 gave up waiting at layer 2, forward" in said
    assert "no word from rank" in said and "2" in said


def test_a_killed_worker_ends_the_others_at_once(tmp_path):
    start = time.monotonic()
    said = run(tmp_path, "killed")
    assert "rank 0 gave up waiting at layer 2, forward" in said
    assert time.monotonic() - start < 40
