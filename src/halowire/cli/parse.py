"""The flags of a verb are parsed with tyro: full help on demand, one clear line on a mistake."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from halowire.errors import InputError

Arguments = TypeVar("Arguments")
KINDS = (
    "built-in name (debian), file (.npz, .csv, .tsv), data set (planetoid:Cora), OGB folder, or synthetic graph "
    "(sbm:nodes=...)"
)
GraphArgument = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH", help=KINDS)]
"""The graph that a verb reads."""
GraphOrShards = Annotated[
    str, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH", help=f"{KINDS}; or a folder of shards")
]
"""The graph or the folder of shards that a verb reads."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SHORT = {"--task": "--task.kind"}
"""Short names of flags, and the full names that they stand for."""
FRAME = " │|╭╮╰╯─+-"
"""The characters of which tyro draws its boxes, on terminals with and without Unicode."""


def parse(kind: type[Arguments], verb: str, argv: Sequence[str], default: Arguments | None = None) -> Arguments:
    """``argv`` as an instance of the dataclass ``kind``; a mistake becomes an :class:`InputError` of one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed: Arguments = tyro.cli(  # type: ignore[assignment]
                kind,
                prog=f"halowire {verb}",
                args=expand(argv),
                default=default,
                registry=_registry(),
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
            )
            return parsed
    except SystemExit as error:
        if not error.code:
            raise
        raise InputError(f"{one_line(said.getvalue())} (`halowire {verb} --help` lists the flags)") from None


def expand(argv: Sequence[str]) -> list[str]:
    """``argv`` with full names of flags in place of short names."""
    parts = [word.partition("=") for word in argv]
    return [SHORT.get(name, name) + equals + value for name, equals, value in parts]


def one_line(box: str) -> str:
    """The message inside the box that tyro draws, as one line in halowire's words."""
    sections: list[list[str]] = [[]]
    for line in COLOUR.sub("", box).splitlines()[1:]:
        if line.strip(FRAME):
            sections[-1].append(line.strip().strip("│|").strip())
        elif sections[-1]:
            sections.append([])
    message = " ".join(sections[0])
    flags = [line for section in sections for line in section if line.startswith("--")]
    if found := re.match(r"Unrecognized options: (.*)", message):
        hint = f"; perhaps you meant {flags[0].split()[0]}" if flags else ""
        return f"unknown: {found[1].replace(', ', ' ')}{hint}"
    if message.startswith("Missing from"):
        return f"missing: {', '.join(_names(sections[0][1:]))}"
    if found := re.match(r"Missing value for argument '(-*)(\S+)'", message):
        return f"missing: {'the value of ' + found[1] + found[2] if found[1] else found[2].upper()}"
    if found := re.match(r"[Ii]nvalid choice '(.*)' for argument '(\S+)'. Expected one of \((.*?),?\)", message):
        return f"{found[2]} is {found[1]!r}; expected one of {found[3].replace(chr(39), '')}"
    if found := re.match(r"Error parsing (\S+): .*?'([^']*)'\]?\.?$", message):
        kind = {"INT": "a whole number", "FLOAT": "a number"}.get(
            flags[0].split()[-1].rpartition("|")[2] if flags else "", "another value"
        )
        return f"{found[1]} is {found[2]!r}; expected {kind}"
    return message


def _registry() -> ConstructorRegistry:
    """Tells tyro about subclasses of str that know their values: the flag takes one of these values.

    The subclass is not imported here, because `halowire report` must not wait for torch.
    """
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def one_of_the_known(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[str] | None:
        kind: Any = info.type
        if not hasattr(kind, "known"):
            return None
        choices = kind.known()
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=f"{{{','.join(choices)}}}",
            instance_from_str=lambda words: kind(words[0]),
            is_instance=lambda value: isinstance(value, kind),
            str_from_instance=lambda name: [name],
            choices=choices,
        )

    return registry


def _names(lines: list[str]) -> list[str]:
    """The flags and positional arguments among the lines of tyro's help."""
    return [line.split()[0] for line in lines if re.match(r"(--\S+|[A-Z]+)( [A-Z{]\S*)?$", line)]
