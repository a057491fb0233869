"""The `halowire` command: picks the verb, turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

VERBS = {
    "doctor": "show versions, kernels, network, and a round trip between all workers",
    "partition": "cut a graph into shards on disk",
    "inspect": "describe a graph or a folder of shards",
    "train": "train a model on a graph spread over workers",
    "predict": "write a trained model's predictions for every node",
    "report": "write the HTML page of one run or several",
}
USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


def main(argv: list[str] | None = None) -> int:
    """Run one verb; 0 is success, 2 bad input, 1 any other failure, 130 a run that was interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else USAGE_ERROR
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"halowire {version('halowire')}")
        return 0
    if words[0] not in VERBS:
        return _fail(f"verb {words[0]!r} is unknown; use one of {', '.join(VERBS)}", USAGE_ERROR)
    return guarded(importlib.import_module(f"halowire.cli.{words[0]}").run, words[1:])


def guarded(verb: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run ``verb``; errors that the user can act on become one line and an exit code."""
    from halowire.exchange import LateError
    from halowire.kernels import InputError
    from halowire.train.loop import TrainingError

    try:
        return verb(arguments)
    except InputError as error:
        return _fail(str(error), USAGE_ERROR)
    except (LateError, TrainingError) as error:
        return _fail(str(error), FAILURE)
    except KeyboardInterrupt as error:
        return _fail(str(error) or "interrupted", INTERRUPTED)


def _fail(message: str, code: int) -> int:
    """Say it once: where every worker meets the same error, rank 0 speaks."""
    if int(os.environ.get("RANK", "0")) == 0 or code != USAGE_ERROR:
        print(f"halowire: error: {message}", file=sys.stderr, flush=True)
    return code


def _usage() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {summary}" for verb, summary in VERBS.items())
    return f"usage: halowire VERB [FLAGS]\n\n{verbs}\n\n`halowire VERB --help` lists the flags of a verb."
