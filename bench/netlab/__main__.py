"""Runs a command on N hosts with slow links, all of them on this machine; see README.md."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.netlab.lab import PORT, PREFIX, TIMEOUT, Lab, LabError
from bench.netlab.launch import TIMED_OUT, Result, worst
from bench.netlab.namespace import CommandError

USAGE, INTERRUPTED = 2, 130
TAIL = 15


def parser() -> argparse.ArgumentParser:
    """The options before the command."""
    made = argparse.ArgumentParser(prog="python -m bench.netlab", description=__doc__)
    made.add_argument("--hosts", type=int, default=2, help="number of hosts (2)")
    made.add_argument("--rate", default="1gbit", help="of every link, each way: 10mbit, 1.5gbit, ..., or none (1gbit)")
    made.add_argument("--cores-per-host", type=int, default=1, help="cores that a host is pinned to, 0 for all (1)")
    made.add_argument("--master-port", type=int, default=PORT, help=f"where the workers meet on host 0 ({PORT})")
    made.add_argument("--workers-per-host", type=int, default=1, help="workers that torchrun starts on a host (1)")
    made.add_argument("--no-torchrun", action="store_true", help="set torchrun's variables instead of starting it")
    made.add_argument("--timeout", type=float, default=TIMEOUT, help=f"seconds for the whole command ({TIMEOUT:.0f})")
    made.add_argument(
        "--logs", type=Path, help="folder for the output of the other hosts (a new one in the temporary folder)"
    )
    made.add_argument("--prefix", default=PREFIX, help=f"how the namespaces are called ({PREFIX})")
    made.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="{host}, {hosts} and {master} are filled in"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, run, remove; the exit code is the worst of the hosts'."""
    options = parser().parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    try:
        results = _run(options, command)
    except (LabError, ValueError, FileNotFoundError) as error:
        return _say(str(error), USAGE)
    except CommandError as error:
        return _say(str(error), 1)
    except KeyboardInterrupt:
        return _say("interrupted; all hosts are removed", INTERRUPTED)
    for result in results:
        _explain(result, options.timeout)
    return worst(results)


def _run(options: argparse.Namespace, command: list[str]) -> list[Result]:
    if not command:
        raise ValueError("there is no command; write it after --, for example -- halowire train debian --out runs/slow")
    if command[0] not in ("halowire", "torchrun", "python") and shutil.which(command[0]) is None:
        raise ValueError(f"there is no program {command[0]!r}")
    rate = None if options.rate == "none" else options.rate
    plain = options.no_torchrun or command[0] == "torchrun"
    with Lab(options.hosts, rate, options.cores_per_host, options.master_port, options.prefix) as lab:
        if lab.crowded:
            _say("there are fewer cores than the hosts should have: they share, and times say little")
        logs = options.logs or Path(tempfile.mkdtemp(prefix=f"{options.prefix}-"))
        _say(f"{options.hosts} hosts at {options.rate}; the output of the others is in {logs}")
        before = lab.sent_bytes()
        workers = options.workers_per_host
        results = lab.run(
            command, timeout=options.timeout, use_torchrun=not plain, show=True, logs=logs, workers=workers
        )
        sent = [after - start for after, start in zip(lab.sent_bytes(), before, strict=True)]
        _say("sent " + ", ".join(f"{count / 1e6:.2f} MB by host {number}" for number, count in enumerate(sent)))
    return results


def _explain(result: Result, timeout: float) -> None:
    if result.code == 0:
        return
    why = f"ended with exit code {result.code}"
    if result.stopped:
        why = "was stopped after another host had failed"
    elif result.code == TIMED_OUT:
        why = f"had not ended after {timeout:g} seconds"
    said = "".join(f"\n  | {line}" for line in result.output.splitlines()[-TAIL:])
    _say(f"host {result.host} {why}{said}")


def _say(text: str, code: int = 0) -> int:
    print(f"netlab: {text}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
