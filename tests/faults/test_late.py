"""A worker that does not come, or a store that does not answer: the others give up at the deadline and say who."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from halowire.errors import LateError
from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.wire import HaloExchange, Transport, leave_group
from tests.support.started import TRAIN, ended, free_port, start


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
    assert "rank 0 gave up waiting at set-up or evaluation, layer 2, forward after" in said
    assert "no word from rank" in said and "2" in said


def test_a_killed_worker_ends_the_others_at_once(tmp_path):
    start = time.monotonic()
    said = run(tmp_path, "killed")
    assert "rank 0 gave up waiting at set-up or evaluation, layer 2, forward after" in said
    assert "ended after fewer steps than others: all take the same number, also over batches of their own rows" in said
    assert time.monotonic() - start < 40


def cut_off(rank: int, folder: str, port: int) -> None:
    """Ranks 0 and 1 meet at a store; when both are stopped, rank 0 waits for rank 1, and then leaves its groups."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    if rank == 2:
        store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        Path(folder, "port").write_text(str(store.port))
        time.sleep(60)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=30))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=30))
    transport = Transport(deadline=2)
    transport.barrier("start")
    Path(folder, f"ready-{rank}").touch()
    wait_for(Path(folder, "stopped"))
    start = time.monotonic()
    with Path(folder, "stderr").open("w") as sys.stderr:
        try:
            transport.barrier("epoch 3, layer 2, forward")
        except LateError as error:
            waited = time.monotonic() - start
            transport.forget()
            leave_group()
            Path(folder, "said").write_text(f"{waited} {time.monotonic() - start - waited} {error}")
    os._exit(0)


def test_a_wait_ends_by_its_deadline_when_no_one_can_be_reached(tmp_path):
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=cut_off, args=(2, str(tmp_path), 0))
    server.start()
    wait_for(tmp_path / "port")
    port = int((tmp_path / "port").read_text())
    workers = [context.Process(target=cut_off, args=(rank, str(tmp_path), port)) for rank in range(2)]
    for worker in workers:
        worker.start()
    wait_for(tmp_path / "ready-0", tmp_path / "ready-1")
    try:
        for stopped in (server, workers[1]):
            os.kill(stopped.pid, signal.SIGSTOP)
        (tmp_path / "stopped").touch()
        workers[0].join(30)
        assert workers[0].exitcode == 0, "rank 0 hangs"
    finally:
        for process in (server, *workers):
            process.kill()
    waited, left, *words = (tmp_path / "said").read_text().split(" ")
    assert 2 <= float(waited) < 2 + 3 + 3 and float(left) < 8
    said = " ".join(words)
    assert "rank 0 gave up waiting at epoch 3, layer 2, forward for the other workers after 2" in said
    assert "reaches no one" in said
    warned = (tmp_path / "stderr").read_text()
    assert "rank 0 waits 0.5 s for the other workers at epoch 3, layer 2, forward; gives up after 2 s" in warned


def by_hand(folder: Path, rank: int, port: int, deadline: int, size: int = 2) -> subprocess.Popen[str]:
    """One of some workers that meet at a port of this machine, as a script or a cluster starts it."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = (*TRAIN, "--epochs", "3", "--deadline", str(deadline), "--out", "run")
    return start(folder, *words, place=place | {"HALOWIRE_TOKEN": "0123456789abcdef0123"})


@pytest.fixture
def mute():
    """The port of a server that accepts every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:  # the system accepts for it
        yield server.getsockname()[1]


def test_a_store_that_never_answers_ends_the_wait_by_the_deadline(tmp_path, mute):
    process = by_hand(tmp_path, 1, mute, 6)
    begun = time.monotonic()
    code, said = ended(process)
    assert code == 1 and time.monotonic() - begun < 6 + 15
    warned, error = said.splitlines()
    where = f"127.0.0.1:{mute}"
    assert re.fullmatch(
        rf"warning: rank 1 waits [12](\.\d)? s for rank 0 to join at {where}; gives up after 6 s", warned
    )
    assert error.startswith(f"halowire: error: rank 1 cannot join the 2 workers at {where}: the way to the other")


@pytest.mark.slow
def test_ctrl_c_ends_a_worker_that_waits_for_a_store(tmp_path, mute):
    process = by_hand(tmp_path, 1, mute, 20)
    assert process.stderr is not None and "for rank 0 to join" in process.stderr.readline()
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    assert (code, said) == (130, "halowire: interrupted\n") and time.monotonic() - begun < 5


def test_who_never_came_is_named_long_before_the_end(tmp_path):
    process = by_hand(tmp_path, 0, free_port(), 8)
    code, said = ended(process)
    warned, error = said.splitlines()
    assert code == 1 and re.match(r"warning: rank 0 waits 2(\.\d)? s for rank 1 to join at 127.0.0.1:", warned)
    assert error.endswith("no word from rank 1")


@pytest.mark.slow
def test_a_first_worker_that_is_stopped_while_others_join_ends_their_wait(tmp_path):
    port = free_port()
    first, second = (by_hand(tmp_path, rank, port, 12, size=3) for rank in (0, 1))
    assert second.stderr is not None and "for rank 2 to join" in second.stderr.readline()
    first.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    code, said = ended(second)
    assert code == 1 and "the way to the other workers took longer than 1" in said
    assert time.monotonic() - begun < 12 + 5
