"""The files for clusters: their scripts run with stand-ins of the cluster's programs, their flags are real ones."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import halowire
from tests.support.commands import ROOT, parse_command, parse_halowire, parse_torchrun
from tests.support.started import free_port

pytestmark = pytest.mark.timeout(600)  # programs that start programs: a busy machine takes its time
EXAMPLES = ROOT / "examples"
PROGRAMS = str(Path(sys.executable).parent)
GRAPH = "sbm:nodes=200,edges=1600,features=4,classes=3"
TOKEN = {"HALOWIRE_TOKEN": "0123456789abcdef0123456789abcdef"}
QUICK = ["--epochs", "2", "--model.hidden", "8", "--threads", "1", "--deadline", "500", "--quiet"]


@pytest.mark.parametrize("name", ["slurm.sbatch", "several_machines.sh"])
def test_scripts_have_no_syntax_errors(name):
    subprocess.run(["bash", "-n", EXAMPLES / name], check=True)


def stand_ins(folder: Path, **programs: str) -> dict[str, str]:
    """An environment whose PATH begins with these scripts."""
    folder.mkdir()
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}


def slurm_words(tmp_path: Path, name: str) -> list[str]:
    """The command that the Slurm script starts on every machine."""
    environment = stand_ins(
        tmp_path / name, scontrol="printf '%s\\n' node7 node8 node9", openssl="echo 0123456789abcdef",
        srun='SLURM_NODEID=1 exec "$@"', torchrun='printf "%q " torchrun "$@"; test -n "$HALOWIRE_TOKEN"'
    )  # fmt: skip
    environment |= {"SLURM_JOB_ID": "42", "SLURM_JOB_NODELIST": "node[7-9]", "SLURM_NNODES": "3"}
    environment |= {"SLURM_CPUS_PER_TASK": "4", "RUNS": str(tmp_path), "SHARDS": "/somewhere/shards"}
    done = subprocess.run(
        ["bash", EXAMPLES / "slurm.sbatch"], env=environment, capture_output=True, text=True, check=True
    )
    return shlex.split(done.stdout)


def test_the_slurm_script_starts_torchrun_on_every_machine(tmp_path):
    given, train = parse_command(slurm_words(tmp_path, "first"))
    assert (given.nnodes, given.node_rank, given.master_addr, given.master_port) == ("3", 1, "node7", 29400)
    assert given.rdzv_backend == "static" and not given.standalone
    assert train.graph == "/somewhere/shards" and train.config.recipe == "sylvie-a" and not train.resume
    assert Path(train.out) == tmp_path / "slurm-42"
    (tmp_path / "slurm-42").mkdir()
    (tmp_path / "slurm-42" / "config.json").touch()
    assert parse_command(slurm_words(tmp_path, "again"))[1].resume, "a requeued job goes on"


def test_the_slurm_script_asks_for_one_task_per_machine():
    lines = (EXAMPLES / "slurm.sbatch").read_text().splitlines()
    asked = dict(line.removeprefix("#SBATCH --").partition("=")[::2] for line in lines if line.startswith("#SBATCH"))
    assert asked["ntasks-per-node"] == "1" and int(asked["nodes"]) > 1 and "requeue" in asked and "time" in asked
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[:last]), "Slurm stops reading at the first command"


def finish(processes: list[subprocess.Popen]) -> list[str]:
    said = [process.communicate(timeout=560) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return [out for out, _ in said]


def start(words: list[object], environment: dict[str, str], folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [str(word) for word in words], env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_two_machines_by_torchrun(tmp_path):
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"} | TOKEN
    script, host = EXAMPLES / "several_machines.sh", f"localhost:{free_port()}"
    out = finish([start([script, host, n, 2, GRAPH, tmp_path / "run", *QUICK], environment, tmp_path) for n in (0, 1)])
    assert sum("test" in text for text in out) == 1, "the machine of rank 0 prints the table"
    assert halowire.Run(tmp_path / "run", {}).report.exists()


def test_the_script_for_several_machines_resumes(tmp_path):
    environment = stand_ins(tmp_path / "bin", torchrun='printf "%q " "$@"') | {"WORKERS": "4"} | TOKEN
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").touch()
    words = ["bash", EXAMPLES / "several_machines.sh", "node0:29400", "1", "2", "/data/graph.npz", tmp_path / "run"]
    done = subprocess.run([*words, "--epochs", "9"], env=environment, capture_output=True, text=True, check=True)
    given, train = parse_torchrun(shlex.split(done.stdout))
    assert (given.nnodes, given.node_rank, given.nproc_per_node) == ("2", 1, "4")
    assert (given.master_addr, given.master_port, given.rdzv_backend) == ("node0", 29400, "static")
    assert train.resume and train.config.epochs == 9


def manifest() -> dict:
    return yaml.safe_load((EXAMPLES / "pytorchjob.yaml").read_text())


def test_the_kubernetes_manifest_has_the_fields_of_a_pytorchjob():
    job = manifest()
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob") and job["metadata"]["name"]
    assert set(job["spec"]) == {"runPolicy", "pytorchReplicaSpecs"}
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] in ("None", "Running", "All")
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert set(replicas) == {"Master", "Worker"} and replicas["Master"]["replicas"] == 1
    for one in replicas.values():
        assert set(one) == {"replicas", "restartPolicy", "template"}
        assert one["restartPolicy"] in ("Always", "OnFailure", "Never", "ExitCode")
        pod = one["template"]["spec"]
        (container,) = pod["containers"]
        assert container["name"] == "pytorch", "the operator looks for a container of this name"
        assert all(isinstance(word, str) for word in container["command"] + container["args"])
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        assert int(container["resources"]["requests"]["cpu"]) == int(container["args"][-3])
    text = (EXAMPLES / "pytorchjob.yaml").read_text()
    pods = sum(one["replicas"] for one in replicas.values())
    assert f"--parts {pods} " in text, "as many shards as pods"


def test_the_kubernetes_command_runs_as_the_operator_starts_it(tmp_path):
    container = manifest()["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    words = container["command"] + container["args"]
    arguments = parse_halowire(words[1:])
    assert arguments.graph == "/data/shards" and arguments.workers is None
    shards = halowire.partition(GRAPH, 2, tmp_path / "shards")
    words = [{"/data/shards": str(shards), "/data/runs/k8s": str(tmp_path / "run")}.get(word, word) for word in words]
    port, started = str(free_port()), []
    for rank in ("0", "1"):
        place = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        environment = os.environ | place | TOKEN | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        started.append(start([*words, *QUICK], environment, tmp_path))
    finish(started)
    assert (tmp_path / "run" / "summary.json").exists()
