"""Links: two hosts in network namespaces, and the cable between them pulled for 3 s, for 60 s, and for ever."""

from __future__ import annotations

import signal
import time
from functools import partial

from bench.netlab import Lab
from bench.netlab.launch import variables
from bench.netlab.namespace import system
from bench.soak.ground import Case, Ground
from bench.soak.outcome import SURVIVED, BadEndError
from bench.soak.program import LONGEST, Program, send
from bench.soak.result import epochs_done, last_start, saved_epoch
from bench.soak.subject import SUBJECTS

BRIEF = "link cut for 3 s"
MINUTE = "link cut for 60 s"
LONGER = "link cut for longer than the deadline"
FOR_EVER = "link cut for ever"
PORT = 29500


class Hosts:
    """The workers of a run on the hosts of a lab, each with a run folder of its own."""

    def __init__(self, ground: Ground, lab: Lab) -> None:
        self._ground = ground
        self._lab = lab
        self.runs = [ground.run, *(ground.folder / f"run-{host.number}" for host in lab.hosts[1:])]
        ground.runs = self.runs
        self._programs: list[Program] = []
        self._port = PORT

    def start(self, *flags: str) -> list[Program]:
        """Start one worker on every host; a new port each time, as the last one may still be in use."""
        self._port += 1
        started = []
        for host, run in zip(self._lab.hosts, self.runs, strict=True):
            names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
            place = variables(host, self._lab.hosts, self._port, {})
            more = {name: place[name] for name in (*names, "HALOWIRE_TOKEN")}
            words = host.command(self._ground.subject.words(run, *flags, workers=0))
            started.append(self._ground.begin(words, more))
        self._programs = started
        return started

    def pull(self, up: bool = False) -> None:
        """Pull the cable of the last host out of the switch, or with ``up`` put it in again."""
        host = self._lab.hosts[-1]
        # The command takes as long as many epochs: the workers stand still meanwhile, or the run might be over.
        for program in self._programs if not up else ():
            send(program.pid, signal.SIGSTOP)
        system(f"ip -n {host.switch} link set {host.port} {'up' if up else 'down'}")
        for program in self._programs if not up else ():
            send(program.pid, signal.SIGCONT)

    def finish(self, programs: list[Program]) -> None:
        """All must end well, with the result of the run without faults."""
        for program in programs:
            if (end := program.wait(LONGEST * 2)).code != 0:
                raise BadEndError("wrong exit code", f"{end.code} at the end: {end.said[-500:]}")
        self._ground.compare(*self.runs)


def pulled(ground: Ground, seconds: float, deadline: float, brief: int = 0) -> None:
    """``brief`` cuts of 3 s, then one of ``seconds`` (0: none); beyond the deadline all hosts end, and are resumed."""
    with Lab(ground.subject.workers, None, cores_per_host=0, prefix="soak") as lab:
        hosts = Hosts(ground, lab)
        programs = hosts.start("--deadline", str(deadline))
        targets = ground.targets(brief + 1)
        for target in targets[:-1]:
            _cut(ground, hosts, programs, target, 3.0, BRIEF)
        survives = seconds < deadline
        if survives:
            _cut(ground, hosts, programs, targets[-1], seconds, MINUTE)
        else:
            programs = _beyond(ground, hosts, programs, targets[-1], seconds, deadline)
        hosts.finish(programs)


def _cut(ground: Ground, hosts: Hosts, programs: list[Program], target: int, seconds: float, name: str) -> None:
    """Cut the link for ``seconds``, which the run must survive."""
    ground.reach(programs[0], max(target, epochs_done(ground.run)))
    fault = ground.fault(name)
    hosts.pull()
    time.sleep(seconds)
    done = epochs_done(ground.run)
    hosts.pull(up=True)
    back = time.time()
    if not programs[0].wait_for("epochs", lambda: epochs_done(ground.run) > done):
        raise BadEndError("wrong exit code", f"the run ended: {programs[0].said[-500:]}")
    fault.recover, fault.lost = time.time() - back, 0


def _beyond(
    ground: Ground, hosts: Hosts, programs: list[Program], target: int, seconds: float, deadline: float
) -> list[Program]:
    """Cut the link past the deadline: every host ends soon, names who is late, and is started again."""
    done = ground.reach(programs[0], max(target, epochs_done(ground.run)))
    fault = ground.fault(FOR_EVER if seconds == float("inf") else LONGER)
    hosts.pull()
    for program in programs:
        end = program.wait(deadline + 45)
        ground.expect_line(end, [1], "gave up waiting|reaches no one|did not answer|connection")
    fault.detect = time.time() - fault.at
    time.sleep(max(0.0, min(seconds, 60.0) - fault.detect) if seconds != float("inf") else 0.0)
    hosts.pull(up=True)
    saved = saved_epoch(ground.run)
    again = hosts.start("--resume", "--deadline", "60")
    if not again[0].wait_for("start", lambda: last_start(ground.run) > again[0].began):
        raise BadEndError("wrong exit code", f"it does not go on: {again[0].said[-500:]}")
    fault.recover = last_start(ground.run) - again[0].began
    fault.lost, fault.outcome = max(0, done - saved), SURVIVED
    return again


def cases() -> list[Case]:
    """Brief cuts and one for ever for all ways of moving rows; a minute for two of them."""
    names = ("exact", "sylvie-a-saving", "halowire", "gnnpipe")
    four = ("hybrid", "exact-hosts")
    minute = partial(pulled, seconds=60.0, deadline=150.0)
    longer = partial(pulled, seconds=60.0, deadline=10.0)
    for_ever = partial(pulled, seconds=float("inf"), deadline=10.0, brief=2)
    return [
        Case("link-minute-exact", SUBJECTS["exact"], minute, beside=True),
        Case("link-longer-halowire", SUBJECTS["halowire"], longer, beside=True),
        *(Case(f"link-{name}", SUBJECTS[name], for_ever, beside=True) for name in names),
        *(Case(f"link-{name}", SUBJECTS[name], partial(for_ever, brief=1), beside=True) for name in four),
    ]
