"""The `halowire` command picks the verb and turns errors into exit codes."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from halowire.cli.speaker import speaks_by_number, speaks_for_all
from halowire.errors import FAILED, INTERRUPTED, USAGE, PlaceError, explain, internal_error, wants_traceback
from halowire.interruption import second_interrupt_ends
from halowire.output import prepare_output

VERBS = {
    "doctor": "show versions, kernels, network, and a round trip between all workers; --gpu proves the GPUs",
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
    prepare_output()
    if not words:
        return _guarded(_print_to_errors, [_usage()])
    if words[0] in ("-h", "--help", "help"):
        return _guarded(_print, [_usage()])
    if words[0] == "--version":
        from importlib.metadata import version

        return _guarded(_print, [f"halowire {version('halowire')}"])
    if words[0] not in VERBS:
        near = difflib.get_close_matches(words[0], VERBS, n=1)
        hint = f"perhaps you meant {near[0]!r}" if near else f"use one of {', '.join(VERBS)}"
        return _say(f"verb {words[0]!r} is unknown; {hint}", USAGE)
    if not _has_working_folder():  # torch would end the program with words about a library
        return _say("the working folder is gone: it was deleted or moved; change to another one", USAGE)
    with _signals_as_interrupt() as wish, second_interrupt_ends():
        verb = importlib.import_module(f"halowire.cli.{words[0]}").run
        return _guarded(verb, words[1:], wish)


class _InterruptWish:
    """The handler of the signals that end a verb.

    Until the verb ``began`` nothing was written, and the program ends at once: libraries that are being loaded do not
    stand an interrupt, and would say so at length.
    """

    def __init__(self) -> None:
        self.began = False
        self.came = False

    def __call__(self, *_: object) -> None:
        if not self.began:
            _say("interrupted", INTERRUPTED)
            os._exit(INTERRUPTED)
        self.came = True
        raise KeyboardInterrupt


def _guarded(verb: Callable[[list[str]], int], arguments: list[str], wish: _InterruptWish | None = None) -> int:
    """Run ``verb``; errors that the user can act on become one line and an exit code."""
    wish = wish or _InterruptWish()
    try:
        wish.began = True
        code = verb(arguments)
        sys.stdout.flush()
    except SystemExit as error:
        return int(error.code or 0)
    except BrokenPipeError:
        # The reader (`| head`) has gone: print nothing, and keep the interpreter from flushing again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt as error:
        return _say(str(error) or "interrupted", INTERRUPTED)
    except Exception as error:
        if wish.came:  # a library made another error of it
            return _say("interrupted", INTERRUPTED)
        if wants_traceback():
            traceback.print_exc()
        code, message = explain(error) or (FAILED, str(internal_error(error, rank=_rank())))
        return _say(message, code, isinstance(error, PlaceError))
    return code


def _rank() -> int:
    """The rank that a launcher gave this process, 0 without one."""
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() else 0


def _print(lines: list[str]) -> int:
    print(*lines, sep="\n")
    return 0


def _print_to_errors(lines: list[str]) -> int:
    with suppress(OSError):
        print(*lines, sep="\n", file=sys.stderr, flush=True)
    return USAGE


def _has_working_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - only this asks the system
    except FileNotFoundError:
        return False
    return True


def _say(message: str, code: int, alone: bool = False) -> int:
    """Print an error and return its exit code; an error of all workers is printed by one worker of each machine.

    ``alone``: it is this worker's error.
    """
    if code == USAGE and not alone:
        speaks = speaks_for_all(message)
    else:
        speaks = alone or speaks_by_number() or code != INTERRUPTED
    if speaks:
        kind = "" if code == INTERRUPTED else "error: "
        # The terminal may have been closed: then nobody reads the message, but the exit code still tells.
        with suppress(OSError):
            print(f"halowire: {kind}{message}", file=sys.stderr, flush=True)
    return code


@contextmanager
def _signals_as_interrupt() -> Iterator[_InterruptWish]:
    """Let SIGTERM and a closed terminal end a verb as Ctrl-C does; `nohup` has made a closed terminal ignored.

    Python allows only the main thread to set a signal handler.
    """
    wish = _InterruptWish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if number not in (signal.SIGINT, signal.SIGHUP) or handler != signal.SIG_IGN:
            signal.signal(number, wish)
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _usage() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {summary}" for verb, summary in VERBS.items())
    return f"usage: halowire VERB [FLAGS]\n\n{verbs}\n\n`halowire VERB --help` lists the flags of a verb."
