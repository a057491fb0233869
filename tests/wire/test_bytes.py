"""The ledger's bytes are the bytes that the operating system sent: set-up, halos, gradients and evaluation together."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.wire.namespaces import possible, two_hosts

GRAPH = "sbm:nodes=20000,edges=200000,features=64,classes=10"


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_ledger_equals_the_operating_system(tmp_path, model):
    if reason := possible():
        pytest.skip(reason)
    with two_hosts() as hosts:
        before = [host.sent_bytes() for host in hosts]
        workers = []
        for rank, host in enumerate(hosts):
            place = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_PORT": 29400}
            environment = os.environ | {key: str(value) for key, value in place.items()}
            environment |= {"MASTER_ADDR": hosts[0].address, "OMP_NUM_THREADS": "1"}
            flags = f"--epochs 6 --model.hidden 64 --model.name {model} --partition.method random --eval.every 3"
            out = str(tmp_path / f"run-{rank}")
            command = host.command(sys.executable, "-m", "halowire", "train", GRAPH, *flags.split(), "--out", out)
            workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        for worker in workers:
            said, _ = worker.communicate(timeout=120)
            assert worker.returncode == 0, said.decode()
            assert rank_interface(said.decode(), hosts) or worker is not workers[0]
        counted = sum(host.sent_bytes() - start for host, start in zip(hosts, before, strict=True))
    summary = json.loads((tmp_path / "run-0" / "summary.json").read_text())
    ledger = summary["wire_bytes_total"]
    parts = summary["wire_bytes_per_epoch"] * 6 + summary["gradient_bytes_per_epoch"] * 6
    assert ledger == pytest.approx(parts + summary["setup_wire_bytes"] + summary["eval_wire_bytes"])
    assert 1.0 <= counted / ledger <= 1.05, f"the ledger says {ledger} bytes, the operating system {counted}"


def rank_interface(said: str, hosts: tuple) -> bool:
    """Whether rank 0 said that it uses the cable."""
    return f"interface {hosts[0].interface} ({hosts[0].address})" in said
