"""The modes of a model: flags, texts and choices that its modules keep, by which its code chooses what it computes.

A script may change them after the model was distributed (``model.stage = "b"``), and then calls are rehearsed anew. Not
counted are numbers, of which only is seen whether there is one, and what forward itself changes: counters and caches.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from types import NoneType, SimpleNamespace
from typing import Any

from torch import nn

INSIDE = frozenset(vars(nn.Module()))
"""Attributes by which torch keeps a module; ``training`` is one of them, and both of its values are rehearsed."""
CACHED = "_cached_"
"""How the names begin by which PyG keeps what ``cached=True`` keeps."""
MOST = 64
"""Larger dictionaries and lists hold data, and are not looked into."""
DEEPEST = 4
VALUES = 16
"""A text that takes more values than these changes in every step, and chooses nothing."""
NUMBER, OTHER = int, object
"""Stand for any number and for what is no mode."""
Place = tuple[str, str]
"""The name of a module and that of its attribute."""


def modes_of(model: nn.Module) -> dict[Place, Any]:
    """The modes of all modules of ``model``, also inside dictionaries, lists and name spaces, in a form to compare."""
    found: dict[Place, Any] = {}
    _look("", model, found, set())
    return found


def _look(name: str, module: nn.Module, found: dict[Place, Any], seen: set[nn.Module]) -> None:
    """Add the modes of ``module`` and of the modules inside to those that were ``found``; every pass looks twice."""
    seen.add(module)
    for key, value in vars(module).items():
        if key in INSIDE:
            continue
        kind: Any = type(value)
        rule = _rule(kind)
        if rule == "plain":
            if value is not None or not key.startswith(CACHED):
                found[name, key] = value
        elif rule and (mode := _mode(value, rule, 0)) is not OTHER:
            found[name, key] = mode
    for key, child in module._modules.items():
        if child is None:
            found[name, key] = None
        elif child not in seen:
            _look(f"{name}.{key}" if name else key, child, found, seen)


class Modes:
    """Which modes of a model a script has changed since these were made; `changed` is a text that tells them apart."""

    def __init__(self, model: nn.Module) -> None:
        self.changed = ""
        self._first = modes_of(model)
        self._last = self._first
        self._given: dict[Place, Any] = {}
        self._taken: dict[Place, set[Any]] = {}
        self._own: set[Place] = set()
        self._numbers = dict(_numbers(model))

    def before(self, model: nn.Module) -> str:
        """Look for what the script has changed since the last pass; returns `changed`."""
        now = modes_of(model)
        if now != self._last:
            for place in _differing(now, self._last) - self._own:
                self._take(place, now.get(place, OTHER))
            self._last = now
            found = sorted(item for item in self._given.items() if item[1] != self._first.get(item[0], OTHER))
            self.changed = repr(found) if found else ""
        return self.changed

    def after(self, model: nn.Module) -> None:
        """Leave out from now on what the pass that ends has changed by itself: it may differ between workers."""
        now = modes_of(model)
        if now != self._last:
            self._own |= _differing(now, self._last)
            self._last = now

    def applied(self, pristine: nn.Module, model: nn.Module) -> nn.Module:
        """``pristine`` in the modes of ``model``: itself where nothing was changed, else a copy."""
        if not self.changed:
            return pristine
        own = copy.deepcopy(pristine)
        for name, key in self._given:
            now = model.get_submodule(name)
            if key in now._modules:
                setattr(own.get_submodule(name), key, None)
            else:
                target = vars(own.get_submodule(name))
                target[key] = _merged(target.get(key), vars(now)[key], 0)
        for (name, key), value in _numbers(model):
            if self._numbers.get((name, key)) != value:
                vars(own.get_submodule(name))[key] = value
        return own

    def _take(self, place: Place, value: Any) -> None:
        """Note that the script gave ``place`` this ``value``."""
        taken = self._taken.setdefault(place, {self._last.get(place, OTHER)})
        taken.add(value)
        if len(taken) > VALUES:
            self._own.add(place)
        elif value is not OTHER:  # what is no mode, such as a tensor that is kept, cannot be rehearsed
            self._given[place] = value


@lru_cache(256)
def _rule(kind: type) -> str:
    """How values of this ``kind`` are looked at; empty where they are no modes."""
    if kind in (bool, str, NoneType) or issubclass(kind, Enum):
        return "plain"
    if kind in (int, float):
        return "number"
    if issubclass(kind, dict):
        return "items"
    if kind in (list, tuple):
        return "entries"
    return "fields" if kind in (Namespace, SimpleNamespace) or hasattr(kind, "__dataclass_fields__") else ""


def _rule_of(value: Any) -> str:
    kind: Any = type(value)
    return _rule(kind)


def _inner(value: Any, rule: str) -> list[tuple[Any, Any]]:
    """What ``value`` holds, by name or place."""
    if rule == "entries":
        return list(enumerate(value))
    return list((value if rule == "items" else getattr(value, "__dict__", {})).items())


def _mode(value: Any, rule: str, depth: int) -> Any:
    """``value`` in a form to compare; `OTHER` where it holds no mode. Numbers that are held may grow in number."""
    if rule == "plain":
        return value
    if rule == "number":
        return OTHER if depth else NUMBER
    if not rule or depth >= DEEPEST or (rule != "fields" and len(value) > MOST):
        return OTHER
    found = [(key, _mode(item, _rule_of(item), depth + 1)) for key, item in _inner(value, rule)[:MOST]]
    held = tuple(item for item in found if item[1] is not OTHER)
    return held or OTHER


def _merged(old: Any, new: Any, depth: int) -> Any:
    """``new`` with its modes and numbers, and with whatever else ``old`` holds at the same place."""
    rule = _rule_of(new)
    if rule in ("plain", "number"):
        return new
    if not rule or depth >= DEEPEST:
        return new if old is None else old
    before = dict(_inner(old, rule)) if type(old) is type(new) else {}
    found = {key: _merged(before.get(key), item, depth + 1) for key, item in _inner(new, rule)}
    if rule == "entries":
        return type(new)(found.values())
    out = copy.copy(new)
    (out if rule == "items" else vars(out)).update(found)
    return out


def _numbers(model: nn.Module) -> Iterator[tuple[Place, float]]:
    """The numbers that the modules of ``model`` keep."""
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in INSIDE and _rule_of(value) == "number":
                yield (name, key), value


def _differing(one: dict[Place, Any], other: dict[Place, Any]) -> set[Place]:
    return {place for place in one.keys() | other.keys() if one.get(place, OTHER) != other.get(place, OTHER)}
