"""What keeps a value from being handed to the workers: found by packing its pieces, named as the user wrote it."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from halowire.errors import InputError
from halowire.pyg.by_value import pack_by_value

DEEPEST = 12
"""Pieces of pieces that are looked into."""


def refuse_unpackable(pieces: Mapping[str, Any], error: Exception) -> InputError:
    """The error to raise because packing ``pieces``, by the names that the user knows, raised ``error``."""
    for name, value in pieces.items():
        if (why := _obstacle(value)) is not None:
            path, kind, why = _culprit(value, name, why, DEEPEST)
            return InputError(
                f"{path} is a {kind}, which cannot be handed to the workers ({why}); make it where it is used, or "
                "leave it out of what is pickled (__getstate__)"
            )
    return InputError(
        f"what fit was given cannot be copied for the workers ({_words(error)}); remove what is bound to this process"
    )


def _culprit(value: Any, name: str, why: str, depth: int) -> tuple[str, str, str]:
    """(path, type, reason) of the innermost piece of ``value`` that cannot be packed."""
    for piece, inner in _pieces(value, name) if depth else ():
        if (found := _obstacle(inner)) is not None:
            return _culprit(inner, piece, found, depth - 1)
    return name, type(value).__name__, why


def _pieces(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What ``value`` is made of, each with the words that reach it."""
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{name}[{place}]", inner) for place, inner in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield f"{name}.__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _used_by(value, name)
    else:
        if isinstance(value, nn.Module):
            yield from ((f"{name}.{key}", inner) for key, inner in value.named_children())
        own = getattr(value, "__dict__", {})
        hidden = ("_modules", "_parameters", "_buffers")
        yield from ((f"{name}.{key}", inner) for key, inner in own.items() if key not in hidden)
        if type(value).__module__ == "__main__":
            for key, inner in vars(type(value)).items():
                if isinstance(inner, types.FunctionType):
                    yield from _used_by(inner, f"{name}.{key}")


def _used_by(function: types.FunctionType, name: str) -> Iterator[tuple[str, Any]]:
    """What a function reaches beside its arguments."""
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if key != "__class__":
            yield f"{key} of {name}", cell.cell_contents
    if function.__module__ == "__main__":
        for key in function.__code__.co_names:
            if key in function.__globals__:
                yield f"{key} of {name}", function.__globals__[key]


def _obstacle(value: Any) -> str | None:
    """Why ``value`` cannot be packed; None where it can."""
    try:
        pack_by_value(value)
    except Exception as error:  # what a user's __getstate__ raises may be anything
        return _words(error)
    return None


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
