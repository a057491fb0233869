"""Hosts that disagree, and strangers: every difference is named and refused, and nobody without the token joins."""

from __future__ import annotations

import socket
import sys
import time

from bench.soak.ground import Case, Ground, for_all
from bench.soak.listening import ports_of
from bench.soak.outcome import BadEndError
from bench.soak.program import Program
from bench.soak.result import epochs_done, saved_epoch
from bench.soak.subject import EXACT, GRAPH, SUBJECTS

DISAGREE = "hosts disagree"
TOKEN = "wrong, short or missing run token"
GARBAGE = "a stranger writes garbage to a port"
SECRET = "a secret of sixteen letters"
DIFFERENCES: dict[str, tuple[str, ...]] = {
    "optim.lr": ("--optim.lr", "0.005"),
    "seed": ("--seed", "5"),
    "model.dropout": ("--model.dropout", "0.25"),
    "optim.weight_decay": ("--optim.weight-decay", "0.1"),
    "model.hidden": ("--model.hidden", "24"),
    "epochs": ("--epochs", "310"),
    "halowire": (),
    "graph": (),
}
"""What rank 1 is started with otherwise, by the name that the message must have."""


def free_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Pair:
    """Two hosts on loopback: the two workers of a run, each started by hand with a run folder of its own."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.runs = [ground.folder / "run", ground.folder / "run-1"]
        ground.runs = self.runs

    def start(self, *flags: str, other: tuple[str, ...] = (), graph: str = GRAPH, **variables: str) -> list[Program]:
        """Start both; rank 1 with ``other`` flags, another ``graph`` and other ``variables`` beside."""
        port = str(free_port())
        place = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        place |= {"MASTER_PORT": port, "HALOWIRE_TOKEN": SECRET}
        first = self._ground.start(*flags, run=self.runs[0], workers=0, env=place | {"RANK": "0"})
        more = place | {"RANK": "1"} | variables
        more = {name: value for name, value in more.items() if value}
        second = self._ground.start(*flags, *other, run=self.runs[1], workers=0, graph=graph, env=more)
        return [first, second]

    def finish(self, programs: list[Program]) -> None:
        """Both must end well, with the result of the run without faults."""
        for program in programs:
            if (end := program.wait()).code != 0:
                raise BadEndError("wrong exit code", f"{end.code} at the end: {end.said[-500:]}")
        self._ground.compare(*self.runs)


def disagreements(ground: Ground) -> None:
    """A stopped run is resumed by two hosts that differ in one thing, then in another; in the end by two that agree."""
    pair = Pair(ground)
    for run in pair.runs:
        ground.wholes.half(ground.subject, run)
    saved = saved_epoch(ground.run)
    for name, flags in DIFFERENCES.items():
        more = {"SOAK_VERSION": "9.9.9"} if name == "halowire" else {}
        graph = GRAPH.replace("seed=0", "seed=1") if name == "graph" else GRAPH
        fault = ground.fault(DISAGREE)
        programs = pair.start("--resume", "--deadline", "20", other=flags, graph=graph, **more)
        for program in programs:
            ground.refused_each(
                fault, program, [2], "the workers disagree", rf"\b{name} is .* on rank 0 and .* on rank 1"
            )
        if saved_epoch(ground.run) != saved:
            raise BadEndError("lost checkpoint", f"epoch {saved} was saved before {name} differed")
        fault.lost = 0
    _tokens(ground, pair)
    pair.finish(pair.start("--resume"))


def _tokens(ground: Ground, pair: Pair) -> None:
    """Rank 1 has another token, one that is too short, or none."""
    for token, words in (("another secret, a wrong one", "tokens differ"), ("short", "characters"), ("", "not set")):
        fault = ground.fault(TOKEN)
        first, second = pair.start("--resume", "--deadline", "6", HALOWIRE_TOKEN=token)
        ground.refused_each(fault, second, [2], words)
        ground.refused_each(fault, first, [1, 2], "tokens differ|no word from rank 1")
        fault.lost = 0


def partitions(ground: Ground) -> None:
    """Two hosts with two cuts of one graph."""
    cut = [
        sys.executable,
        "-m",
        "halowire",
        "partition",
        GRAPH,
        "--parts",
        "2",
        "--quiet",
        "--partition.method",
        "random",
    ]
    for rank in (0, 1):
        ground.begin([*cut, "--seed", str(rank), "--out", f"shards-{rank}"]).wait()
    fault = ground.fault(DISAGREE)
    port = str(free_port())
    for rank in (0, 1):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "HALOWIRE_TOKEN": SECRET}
        ground.start(run=ground.folder / f"run-{rank}", workers=0, graph=f"shards-{rank}", env=place)
    for program in ground.programs[-2:]:
        ground.refused_each(fault, program, [2], "the workers disagree", "partition is")


def garbage(ground: Ground) -> None:
    """Strangers connect to every port on which the workers listen, write what is no message, and hang up."""
    program = ground.start()
    for target in ground.targets(2, last=0.4):
        ground.reach(program, max(target, epochs_done(ground.run)))
        ports = [port for worker in program.workers() for port in ports_of(worker)]
        fault = ground.fault(GARBAGE)
        _write_garbage(ground, ports)
        fault.lost = 0
    ground.finish(program)


def garbage_at_store(ground: Ground) -> None:
    """The same at the port where two hosts meet; the run may end, but not wrongly."""
    pair = Pair(ground)
    first, second = pair.start("--deadline", "20")
    for target in ground.targets(2, last=0.4):
        ground.reach(first, max(target, epochs_done(ground.run)))
        fault = ground.fault(GARBAGE)
        _write_garbage(ground, ports_of(first.pid) + ports_of(second.pid))
        fault.lost = 0
    pair.finish([first, second])


def _write_garbage(ground: Ground, ports: list[int]) -> None:
    if not ports:
        raise BadEndError("not as expected", "no port was found")
    kept = []
    for port in ports:
        stranger = socket.create_connection(("127.0.0.1", port), timeout=5)
        for size in (1, 16, 4096):
            try:
                stranger.sendall(ground.random.randbytes(size))
                time.sleep(0.02)
            except OSError:
                break
        kept.append(stranger)
    time.sleep(0.2)
    for stranger in kept:
        stranger.close()


def cases() -> list[Case]:
    """Disagreement is found before the recipe matters; strangers meet two recipes."""
    return [
        Case("disagree-exact", EXACT, disagreements),
        Case("disagree-partition", EXACT, partitions),
        *for_all("garbage", [EXACT, SUBJECTS["gnnpipe"]], garbage),
        Case("garbage-store", EXACT, garbage_at_store),
    ]
