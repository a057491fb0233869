"""Nobody gets in: a run listens on nothing that others reach, and who does not have its token is refused."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist

from tests.support.listening import listening_at
from tests.support.started import ENDLESS, TORCHRUN, TRAIN, children, ended, free_port, start, wait_for_epochs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
TOKEN = "0123456789abcdef0123456789abcdef"


def environment_of(process: int) -> dict[str, str]:
    words = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_a_local_run_listens_on_loopback_only_and_meets_in_a_private_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")  # what a user has set for a cluster does not open a local run
    process = start(tmp_path, *TRAIN, "--workers", "2", *ENDLESS, "--out", "run")
    wait_for_epochs(tmp_path / "run", 3)
    workers = children(process)
    assert listening_at(process.pid) == [], "the launcher needs no port: the old attack has nowhere to connect to"
    found = [address for worker in workers for address, _ in listening_at(worker)]
    assert len(found) >= 2 and set(found) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    folder = Path(environment_of(workers[0])["HALOWIRE_STORE"]).parent
    status = folder.stat()
    assert stat.S_IMODE(status.st_mode) == 0o700 and status.st_uid == os.getuid()
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process)[0] == 130 and not folder.exists()


def by_hand(folder: Path, rank: int, port: int, token: str | None, address: str = "127.0.0.1") -> subprocess.Popen[str]:
    """One of two workers that meet at ``address``, as a script or a cluster starts it."""
    place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(port)}
    place |= {"OMP_NUM_THREADS": "1"} | ({} if token is None else {"HALOWIRE_TOKEN": token})
    kept = {name: value for name, value in os.environ.items() if name != "HALOWIRE_TOKEN"}
    words = [sys.executable, "-m", "halowire", "doctor"]
    return subprocess.Popen(
        words, cwd=folder, env=kept | place, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def test_a_worker_with_another_token_is_refused_by_all(tmp_path):
    port = free_port()
    workers = [by_hand(tmp_path, 0, port, TOKEN), by_hand(tmp_path, 1, port, "a token that was guessed")]
    for rank, worker in enumerate(workers):
        code, said = ended(worker)
        assert code == 2, said
        assert f"error: rank {rank} refuses to work with rank {1 - rank}: the run tokens differ" in said
        assert said.count("\n") == 1


def test_workers_of_several_machines_without_a_token_are_refused_at_once(tmp_path):
    code, said = ended(by_hand(tmp_path, 0, free_port(), None), 30)
    assert code == 2 and "HALOWIRE_TOKEN is not set" in said


def test_rank_0_listens_at_the_given_address_only(tmp_path):
    """127.0.0.2 stands for the address of one of several interfaces; torch itself would listen on all of them."""
    port = free_port()
    worker = by_hand(tmp_path, 0, port, TOKEN, "127.0.0.2")
    end = time.monotonic() + 60
    while (found := listening_at(worker.pid)) == [] and worker.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert found == [("127.0.0.2", port)]
    other = by_hand(tmp_path, 1, port, TOKEN, "127.0.0.2")
    assert [ended(one)[0] for one in (worker, other)] == [0, 0]


def test_an_intruder_in_torchruns_store_does_not_become_a_worker(tmp_path):
    """torchrun's own store is open to everybody: what a stranger puts there before the workers meet is refused."""
    process = start(tmp_path, "doctor", launcher=TORCHRUN)
    store = dist.TCPStore("127.0.0.1", int(TORCHRUN[TORCHRUN.index("--master-port") + 1]), is_master=False)
    while process.poll() is None:
        for kind in ("nonce", "proof"):
            store.set(f"halowire/start-0/0/{kind}/1", "00" * 32)
        if store.check(["halowire/start-0/0/checked/0"]):
            break
        time.sleep(0.001)
    code, said = ended(process)
    assert code != 0 and "refuses to work with rank 1: the run tokens differ" in said


@pytest.mark.slow
def test_torchruns_open_rendezvous_is_warned_about(tmp_path):
    open_to_all = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "halowire")
    code, said = ended(start(tmp_path, "doctor", launcher=open_to_all))
    assert code == 0 and said.count("halowire: warning: torchrun was started with --standalone") == 1
    assert "warning: torchrun" not in ended(start(tmp_path, "doctor", launcher=TORCHRUN))[1]
