"""What all fuzz tests share: damage for bytes, values of JSON, and the one property that every reader has."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from halowire.errors import InputError

Read = TypeVar("Read")

QUICK, THOROUGH = 25, 400
"""Examples of a fuzz test in the quick suite, and with ``HYPOTHESIS_PROFILE=search``."""

numbers = st.one_of(
    st.integers(-3, 40),
    st.sampled_from(
        [2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**12, 10**30, 10**400, -1, -(2**63), 1.7e308]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
)
texts = st.text(alphabet="ab0.,:-/\\ \t\n\0\x7fé٣\ufeff\U0001f600", max_size=8)
words = st.one_of(texts, st.sampled_from(["", "..", "../x", "\0", "int64", "float32", "nan", "1e999"]))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=8,
)
"""Any values of JSON."""


def examples() -> int:
    """Examples of a fuzz test under the profile in use."""
    return THOROUGH if os.environ.get("HYPOTHESIS_PROFILE") == "search" else QUICK


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """``data`` with one to three wounds: bytes changed, put in, cut out, doubled, or the end cut off."""
    wounded = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(wounded) - 1)))
        kind = draw(st.sampled_from(["flip", "set", "insert", "remove", "repeat", "cut"]))
        if kind == "flip" and wounded:
            wounded[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set":
            piece = draw(st.sampled_from([b"\xff" * 8, b"\0" * 8, b"9" * 20, b"-1", b"\x7f", b"\xff\xff\xff\x7f"]))
            wounded[at : at + len(piece)] = piece
        elif kind == "insert":
            wounded[at:at] = draw(st.binary(min_size=1, max_size=16))
        elif kind == "remove":
            del wounded[at : at + draw(st.integers(1, 64))]
        elif kind == "repeat":
            wounded[at:at] = wounded[at : at + 64]
        else:
            del wounded[at:]
    return bytes(wounded)


def extremes(record: Any, values: tuple[Any, ...] = (10**12, 1.7e308, -5)) -> Iterator[Any]:
    """JSON values like ``record``, with each of ``values`` in the place of every value in it, one at a time."""
    yield from values
    pieces = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for place, piece in pieces:
        for other in extremes(piece, values):
            copied = record.copy()
            copied[place] = other
            yield copied


@st.composite
def changed(draw: st.DrawFn, record: Any) -> Any:
    """A JSON value like ``record``, with another value, or none, in one place of it."""
    if isinstance(record, dict) and record and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(record)))
        if draw(st.integers(0, 5)):
            return record | {key: draw(changed(record[key]))}
        return {name: value for name, value in record.items() if name != key}
    if isinstance(record, list) and record and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(record) - 1))
        return [*record[:at], draw(changed(record[at])), *record[at + 1 :]]
    return draw(values)


def read_or_refused(read: Callable[[], Read], *also: type[Exception]) -> Read | None:
    """What ``read`` gives; None where it refuses its input in one line, by an `InputError` or one of ``also``."""
    try:
        return read()
    except (InputError, *also) as error:
        assert str(error) and "\n" not in str(error), "a refusal is one line"
        return None


@contextmanager
def file_of(data: bytes, name: str) -> Iterator[Path]:
    """A file with ``data``, for the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path
