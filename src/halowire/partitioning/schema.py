"""Checks of what JSON must look like: small checks that combine; each gives the first mismatch in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from reprlib import repr as short
from typing import Any

LIMIT = 2**63
# A check takes a value and the place where it was found, and says what is wrong with it; None: nothing is.
Check = Callable[[Any, str], str | None]


def whole(least: int | None = 0) -> Check:
    """A check for a whole number that is not below ``least``."""

    def check(value: Any, where: str) -> str | None:
        if type(value) is not int or (value < 0 and least is not None):
            return _mismatch(value, where, "a whole number" if least is None else "a whole number >= 0")
        if abs(value) >= LIMIT:
            return _mismatch(value, where, "a whole number below 2**63")
        return None if least is None or value >= least else _mismatch(value, where, f"at least {least}")

    return check


def number(value: Any, where: str) -> str | None:
    """Check that the value is a whole number or a fraction."""
    return None if type(value) in (int, float) else _mismatch(value, where, "a number")


def text(value: Any, where: str) -> str | None:
    """Check that the value is a text that can be written again."""
    good = isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
    return None if good else _mismatch(value, where, "a text")


def flag(value: Any, where: str) -> str | None:
    """Check that the value is true or false."""
    return None if isinstance(value, bool) else _mismatch(value, where, "true or false")


def listed(item: Check) -> Check:
    """A check for a list whose items all pass the check ``item``."""

    def check(value: Any, where: str) -> str | None:
        if not isinstance(value, list):
            return _mismatch(value, where, "a list")
        return _first(item(entry, f"{where}[{place}]") for place, entry in enumerate(value))

    return check


def named(item: Check) -> Check:
    """A check for an object whose names are identifiers and whose values all pass the check ``item``."""

    def check(value: Any, where: str) -> str | None:
        if not isinstance(value, dict):
            return _mismatch(value, where, "an object")
        if odd := [name for name in value if not name.isidentifier()]:
            return f"its {where} holds {short(odd[0])}, expected names of arrays"
        return _first(item(entry, f"{where}.{name}") for name, entry in value.items())

    return check


def record(fields: Mapping[str, Check]) -> Check:
    """A check for an object that has all ``fields``, each of which passes its check; it may have more."""

    def check(value: Any, where: str) -> str | None:
        if not isinstance(value, dict):
            return _mismatch(value, where, "an object")
        if missing := [name for name in fields if name not in value]:
            return f"{_subject(where)} has no {', '.join(missing)}"
        return _first(item(value[name], f"{where}.{name}".lstrip(".")) for name, item in fields.items())

    return check


def _first(found: Iterable[str | None]) -> str | None:
    return next((mismatch for mismatch in found if mismatch is not None), None)


def _mismatch(value: Any, where: str, expected: str) -> str:
    return f"{_subject(where)} is {short(value)}, expected {expected}"


def _subject(where: str) -> str:
    return f"its {where}" if where else "it"
