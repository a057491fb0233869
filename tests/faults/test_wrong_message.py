"""Messages that are not the expected ones, over real connections: a clear error on the spot, and no crash."""

from __future__ import annotations

import multiprocessing
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from halowire.errors import LateError, MessageError
from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.wire import Circle, HaloExchange, Policy, Rate, Transport

CASES = {
    "run": "belongs to run 1, expected run 0",
    "epoch": "is of epoch 4, expected epoch 3",
    "codec": "is coded in bf16, expected float32",
    "rows": "rows, expected",
    "longer": "expected 4-bit",
    "shorter": "bytes for its",
    "swap run": "belongs to run 1, expected run 0",
    "swap epoch": "is of epoch 4, expected epoch 3",
    "swap codec": "is coded in bf16, expected plain values",
    "swap rows": "has 6 rows, expected 5",
    "swap longer": "has 40 bytes for its 5 rows, expected 20",
}
"""What rank 1 does otherwise, and what rank 0 says."""


def swapped(transport: Transport, other: str) -> str:
    """What a worker says of a message of `Transport.swap`: five numbers, sent to the other worker."""
    count = 6 if other == "swap rows" else 5
    rows = torch.ones(count, dtype=torch.int64 if other == "swap longer" else torch.int32)
    sent, received = ([one if peer != transport.rank else 0 for peer in range(2)] for one in (count, 5))
    epoch, codec = 4 if other == "swap epoch" else 3, "bf16" if other == "swap codec" else "plain values"
    try:
        transport.swap(rows, sent, received, "the numbers", epoch, codec)
    except (MessageError, LateError) as error:
        return f"{type(error).__name__}: {error}"
    return "finished"


def work(rank: int, folder: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    store = dist.FileStore(str(Path(folder, "store")), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    graph = block_model(60, 300, 4, 3, seed=1)
    for case in CASES:
        other = case if rank == 1 else ""
        # Every case has connections of its own, as a message that was refused stays in them.
        transport = Transport(deadline=20, circle=Circle.of([0, 1]), run=int(other.endswith("run")))
        if case.startswith("swap "):
            Path(folder, f"{case}-{rank}").write_text(swapped(transport, other))
            continue
        shard = cut(graph, partition(graph, 2, method="random", seed=int(other == "rows")))[rank]
        bits = {"codec": 16, "longer": 32}.get(other, 4 if case == "longer" else 32)
        exchange = HaloExchange(shard, transport, torch.device("cpu"), Policy(lambda *_, bits=bits: Rate(bits)))
        exchange.begin(4 if other == "epoch" else 3)
        said = "finished"
        try:
            width = 2 if other == "shorter" else 4
            message = exchange.start(torch.ones(shard.num_owned, width), 1)
            exchange.finish(message, shard.halo, torch.zeros(shard.num_owned, width))
        except (MessageError, LateError) as error:
            said = f"{type(error).__name__}: {error}"
        Path(folder, f"{case}-{rank}").write_text(said)
    os._exit(0)


def test_a_wrong_message_is_named_and_ends_nothing_else(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(rank, str(tmp_path))) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(90)
    assert [worker.exitcode for worker in workers] == [0, 0], "a worker hangs or was ended by Gloo"
    for case, words in CASES.items():
        said = Path(tmp_path, f"{case}-0").read_text()
        where = "the numbers" if case.startswith("swap ") else "epoch 3, layer 1, forward"
        assert said.startswith(f"MessageError: at {where}, the message from rank 1 "), said
        assert words in said and "; " in said
