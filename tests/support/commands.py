"""Shell commands of pages and scripts: found in their text, and parsed by the parsers that they are for."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from torch.distributed.run import get_args_parser

from halowire.cli.main import VERBS
from halowire.cli.parse import parse
from halowire.training import refuse

ROOT = Path(__file__).parents[2]
SHELL = ("", "bash", "sh", "console")


class Parsed(Exception):  # noqa: N818 - it carries a result out of a verb, it is no error
    """What a verb's flags were parsed to."""


def parse_halowire(words: list[str]) -> Any:
    """The arguments of ``halowire WORDS``, by the verb's own parser; a mistake raises ``InputError``."""
    assert words[0] in VERBS, words
    module = importlib.import_module(f"halowire.cli.{words[0]}")

    def stop(*given: Any) -> None:
        raise Parsed(parse(*given))

    try:
        with mock.patch.object(module, "parse", stop):
            module.run(words[1:])
    except Parsed as done:
        arguments = done.args[0]
    if hasattr(arguments, "config"):
        refuse(arguments.config)
    return arguments


def parse_torchrun(words: list[str]) -> tuple[Any, Any]:
    """The arguments of ``torchrun WORDS``, and of halowire where it starts that."""
    given = get_args_parser().parse_args(words)
    if given.module:
        assert given.training_script == "halowire"
        return given, parse_halowire(given.training_script_args)
    return given, None


def parse_command(words: list[str]) -> Any:
    """The arguments of a command line."""
    if words[0] == "torchrun":
        return parse_torchrun(words[1:])
    return parse_halowire(words[1:])


def commands(text: str) -> Iterator[list[str]]:
    """The commands that start ``halowire`` or ``torchrun`` in the code blocks of a Markdown page, as words."""
    for block in blocks(text):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:[A-Z_]+=\S* +)*((?:halowire|torchrun) .*)", line.strip().removeprefix("$ "))
            if found:
                yield shlex.split(found[1], comments=True)


def blocks(text: str) -> Iterator[str]:
    """The shell blocks of a page: fenced ones without a language or with a shell's, and indented ones."""
    for language, block in re.findall(r"^```(\S*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if language in SHELL:
            yield block
    bare = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.findall(r"(?<=\n\n)((?:    .*\n|\n(?=    ))+)", bare):
        yield re.sub(r"^    ", "", block, flags=re.MULTILINE)
