"""The leaves of nested tuples, lists and dictionaries: what is in them that is none of these."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any


def leaves(value: Any) -> Iterator[Any]:
    """Everything in ``value`` that is no tuple, list or dictionary; the keys of dictionaries are left out."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def keyed_leaves(value: Any, key: Any = None) -> Iterator[tuple[Any, Any]]:
    """The `leaves` of ``value``, each after the innermost key of a dictionary under which it stands, or ``key``."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from keyed_leaves(item, name)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from keyed_leaves(item, key)
    else:
        yield key, value


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """``value`` with every leaf replaced by ``change(leaf)``, in containers of the same types."""
    if isinstance(value, dict):
        filled = copy.copy(value)
        for key, item in value.items():
            filled[key] = changed(item, change)
        return filled
    if isinstance(value, tuple | list):
        items = [changed(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return change(value)
