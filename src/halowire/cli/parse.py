"""Parsing a verb's flags with tyro: full help on demand, one clear line on a mistake."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from typing import TypeVar

import tyro

from halowire.kernels import InputError

Arguments = TypeVar("Arguments")
FRAME = re.compile(r"[╭╮╰╯│─|+]+")


def parse(kind: type[Arguments], verb: str, argv: Sequence[str], default: Arguments | None = None) -> Arguments:
    """``argv`` as an instance of the dataclass ``kind``; a mistake becomes an :class:`InputError` of one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed: Arguments = tyro.cli(  # type: ignore[assignment]
                kind,
                prog=f"halowire {verb}",
                args=list(argv),
                default=default,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
            )
            return parsed
    except SystemExit as error:
        if not error.code:
            raise
        raise InputError(f"{_one_line(said.getvalue())} (halowire {verb} --help lists the flags)") from None


def _one_line(box: str) -> str:
    """The message inside tyro's frame: from its first text line to the first rule, and the nearest known flag."""
    lines = [FRAME.sub(" ", line).strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines()[1:]]
    message = []
    for line in lines:
        if not line:
            break
        message.append(line)
    flags = [line for line in lines[len(message) :] if line.startswith("--")]
    hint = f"; perhaps you meant {flags[0]}" if flags and "Unrecognized" in message[0] else ""
    return " ".join(message) + hint
