"""What runs on which host, how it ends, and what the command line refuses; nothing here needs root."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from bench.netlab import launch
from bench.netlab.__main__ import main
from bench.netlab.host import Host
from bench.netlab.lab import Lab
from bench.netlab.launch import Result, Running, torchrun, variables, words_on, worst
from bench.netlab.namespace import leftovers, new_tag

HOSTS = tuple(Host(number, f"t.{number}", "t.switch", f"10.87.0.{number + 1}", (number,)) for number in range(3))


def result(code: int, stopped: bool = False) -> Result:
    return Result(0, code, 1.0, stopped, None)


@pytest.mark.parametrize("out", [["--out", "runs/a"], ["--out=runs/a"], ["--out", "runs/a/"]])
def test_every_host_but_the_first_gets_an_output_folder_of_its_own(out):
    command = ["halowire", "train", "debian", *out]
    assert words_on(command, HOSTS[0], HOSTS) == [sys.executable, "-m", "halowire", "train", "debian", *out]
    assert words_on(command, HOSTS[2], HOSTS)[5:] == [*out[:-1], out[-1].rstrip("/") + "-host2"]


def test_placeholders_replace_the_suffix():
    command = ["python", "x.py", "--out", "runs/{host}", "--of={hosts}", "{master}:1", "{other}"]
    expected = [sys.executable, "x.py", "--out", "runs/1", "--of=3", "10.87.0.1:1", "{other}"]
    assert words_on(command, HOSTS[1], HOSTS) == expected


def test_torchrun_is_told_what_one_types_on_real_machines():
    words = " ".join(torchrun(["work"], HOSTS[1], HOSTS, 4000))
    expected = ["--nnodes 3", "--node-rank 1", "--nproc-per-node 1", "--master-addr 10.87.0.1", "--master-port 4000"]
    assert all(part in words for part in expected)
    assert words.endswith("--no-python work")


def test_variables_name_the_place_and_forget_the_network_of_the_machine(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "real0")
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    found = variables(HOSTS[2], HOSTS, 4000, {"EXTRA": "1"})
    expected = {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    expected |= {"MASTER_ADDR": "10.87.0.1", "MASTER_PORT": "4000", "EXTRA": "1"}
    assert expected.items() <= found.items()
    assert found["HALOWIRE_TOKEN"] == variables(HOSTS[0], HOSTS, 4000, {})["HALOWIRE_TOKEN"]
    assert not {"GLOO_SOCKET_IFNAME", "TORCHELASTIC_RUN_ID"} & set(found)


def test_the_worst_code_counts_but_not_that_of_a_host_that_was_stopped():
    assert worst([result(0), result(0)]) == 0
    assert worst([result(0), result(2), result(1)]) == 2
    assert worst([result(1), result(143, stopped=True)]) == 1


def test_a_failure_ends_the_others_and_time_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "GRACE", 0.2)
    running = Running()
    running.start([sys.executable, "-c", "print('no'); raise SystemExit(3)"], dict(os.environ), tmp_path / "0.log")
    running.start(["sleep", "60"], dict(os.environ), tmp_path / "1.log")
    first, second = running.wait(30)
    assert (first.code, first.stopped, first.output.strip()) == (3, False, "no")
    assert (second.code, second.stopped) == (143, True)
    running = Running()
    running.start(["sleep", "60"], dict(os.environ), tmp_path / "2.log")
    (late,) = running.wait(0.2)
    assert (late.code, late.stopped) == (124, False)
    assert late.seconds < 5


def test_leftovers_are_those_of_dead_owners_only():
    mine = f"{new_tag('netlab')}.0"
    process, start = mine.split(".")[1:3]
    dead = [f"netlab.{process}.{int(start) + 1}.abcd.switch", "netlab.4194999.17.00ff.3"]
    foreign = ["other.4194999.17.00ff.3", "netlab", "netlab.x.1.abcd.0", "my-netlab.4194999.17.00ff.3"]
    assert leftovers("netlab", [mine, *dead, *foreign]) == dead


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hosts", "2"], "there is no command"),
        (["--hosts", "0", "--", "true"], "the number of hosts is 0"),
        (["--rate", "10mbps", "--", "true"], "'10mbps'"),
        (["--cores-per-host", "9999", "--", "true"], "9999 cores"),
        (["--", "no-such-program"], "no program 'no-such-program'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_without_root_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["--", "true"]) == 2
    said = capsys.readouterr().err
    assert "needs root" in said
    assert len(said.splitlines()) == 1


def test_hosts_share_cores_only_where_there_are_too_few(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5, 6, 7})
    assert [host.cores for host in Lab(hosts=2, cores_per_host=2).hosts] == [(4, 5), (6, 7)]
    assert not Lab(hosts=4).crowded
    assert [host.cores for host in Lab(hosts=3, cores_per_host=2).hosts] == [(4, 5), (6, 7), (4, 5)]
    assert Lab(hosts=3, cores_per_host=2).crowded
    assert Lab(hosts=9, cores_per_host=0).hosts[8].cores == ()


def test_shown_output_has_no_file():
    assert result(0).output == ""
    assert Result(0, 0, 1.0, False, Path(__file__)).output.startswith('"""What runs')
