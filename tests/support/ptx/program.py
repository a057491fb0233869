"""PTX text as a program: its parameters, threads, instructions and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass


class KernelError(RuntimeError):
    """What a kernel must not do, or what the executor does not know."""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        guard: the predicate that lets it run; None: it always runs.
        negated: whether it runs where the predicate is false.
        parts: the operation's name, split at its dots.
        operands: the operands as they are written.
    """

    guard: str | None
    negated: bool
    parts: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The type of the operation, such as ``s32``."""
        return self.parts[-1]

    def __str__(self) -> str:
        return f"{'.'.join(self.parts)} {', '.join(self.operands)}"


@dataclass(frozen=True)
class Program:
    """A kernel: names and bytes of its parameters, threads of a block, instructions, and where labels point."""

    name: str
    parameters: tuple[tuple[str, int], ...]
    threads: int
    code: tuple[Instruction, ...]
    labels: dict[str, int]


def read_program(text: str) -> Program:
    """The only kernel of the PTX ``text``."""
    entry = re.search(r"\.entry\s+(\w+)\(([^)]*)\)(.*?)\n\{(.*?)\n\}", text, re.DOTALL)
    if entry is None:
        raise KernelError("the text holds no kernel")
    name, listed, about, body = entry.groups()
    parameters = re.findall(r"\.[usbf](\d+)[^,]*?(\w+)\s*(?:,|$)", listed)
    threads = re.search(r"\.(?:req|max)ntid\s+(\d+)", about)
    if threads is None:
        raise KernelError(f"{name} does not say how many threads a block has")
    body = re.sub(r"//[^\n]*", "", body)
    body = re.sub(r"^\s*\.(loc|file|pragma|section)[^\n]*", "", body, flags=re.MULTILINE)
    code, labels = read_code(body)
    sizes = tuple((parameter, int(bits) // 8) for bits, parameter in parameters)
    return Program(name, sizes, int(threads[1]), tuple(code), labels)


def read_code(body: str) -> tuple[list[Instruction], dict[str, int]]:
    """The instructions of ``body``, and the place of every label."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for statement in body.split(";"):
        piece = statement.strip()
        while label := re.match(r"(\$?[\w$]+):\s*", piece):
            labels[label[1]] = len(code)
            piece = piece[label.end() :].strip()
        if not piece or piece.startswith((".reg", ".shared")):
            continue
        found = re.match(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.:]*)\s*(.*)$", piece, re.DOTALL)
        if found is None:
            raise KernelError(f"cannot read {piece!r}")
        code.append(Instruction(found[2], found[1] == "!", tuple(found[3].split(".")), operands_of(found[4])))
    return code, labels


def operands_of(text: str) -> tuple[str, ...]:
    """``text`` cut at its commas, but not within braces and brackets."""
    words, depth = [""], 0
    for character in text:
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return tuple(word.strip() for word in words if word.strip())


def members(operand: str) -> list[str]:
    """The registers of a vector such as ``{ %r1, %r2 }``, or the only one."""
    return [name.strip() for name in operand.strip("{} ").split(",")]
