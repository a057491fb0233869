"""The `halowire` command picks the verb and turns errors into exit codes."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from halowire.errors import INTERRUPTED, USAGE, explain

VERBS = {
    "doctor": "show versions, kernels, network, and a round trip between all workers",
    "partition": "cut a graph into shards on disk",
    "inspect": "describe a graph or a folder of shards",
    "train": "train a model on a graph spread over workers",
    "compare": "train every recipe with every seed and compare them",
    "predict": "write a trained model's predictions for every node",
    "report": "write the HTML page of one run or several",
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb; the exit code is 0 for success, 2 for bad input, 130 for an interruption, 1 for other failures."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage(), file=sys.stdout if words else sys.stderr)
        return 0 if words else USAGE
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"halowire {version('halowire')}")
        return 0
    if words[0] not in VERBS:
        near = difflib.get_close_matches(words[0], VERBS, n=1)
        hint = f"perhaps you meant {near[0]!r}" if near else f"use one of {', '.join(VERBS)}"
        return _say(f"verb {words[0]!r} is unknown; {hint}", USAGE)
    with _termination_as_interrupt():
        return _guarded(importlib.import_module(f"halowire.cli.{words[0]}").run, words[1:])


def _guarded(verb: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run ``verb``; errors that the user can act on become one line and an exit code."""
    try:
        return verb(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    except BrokenPipeError:
        # The reader (`| head`) has gone: print nothing, and keep the interpreter from flushing again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except BaseException as error:
        found = explain(error)
        if found is None:
            raise
        return _say(found[1], found[0])


def _say(message: str, code: int) -> int:
    """Print an error and return its exit code; an error of all workers is printed by one worker of each machine."""
    if os.environ.get("LOCAL_RANK", "0") == "0" or code not in (USAGE, INTERRUPTED):
        kind = "" if code == INTERRUPTED else "error: "
        print(f"halowire: {kind}{message}", file=sys.stderr, flush=True)
    return code


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end a verb as Ctrl-C does; Python allows only the main thread to set a signal handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _usage() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {summary}" for verb, summary in VERBS.items())
    return f"usage: halowire VERB [FLAGS]\n\n{verbs}\n\n`halowire VERB --help` lists the flags of a verb."
