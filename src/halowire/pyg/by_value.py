"""Values are handed to the program's own workers; classes of a script or a notebook travel with their code.

This is the only place that pickles: the program writes a file that only this user can read, and its workers read it.
"""

from __future__ import annotations

import builtins
import enum
import importlib
import io
import marshal
import pickle
import types
from collections import namedtuple
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

OWN = "__main__"
"""The module whose classes and functions a worker cannot import."""


def pack_by_value(value: Any) -> bytes:
    """``value`` as bytes for `read_by_value`; a value that cannot be packed raises whatever pickling raises."""
    buffer = io.BytesIO()
    _ByValue(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def write_packed(packed: bytes, file: Path) -> None:
    """Write the bytes of `pack_by_value` to ``file``, which only this user can read."""
    file.touch(mode=0o600)
    file.write_bytes(packed)


def read_by_value(file: Path) -> Any:
    """The value that the program that started this worker wrote with `write_packed`."""
    return pickle.loads(file.read_bytes())


class _ByValue(pickle.Pickler):
    """Pickles classes and functions of the main module, or made inside functions, by content; the rest as usual."""

    def reducer_override(self, value: Any) -> Any:
        """How a worker makes ``value`` again, in the form that pickle asks for."""
        if isinstance(value, types.CellType):
            # A cell is made empty and filled later: a method's cell holds the class that holds the method.
            return _empty_cell, (), _cell_state(value), None, None, _fill_cell
        if isinstance(value, types.FunctionType) and _is_own(value):
            parts: tuple[Any, ...] = (marshal.dumps(value.__code__), value.__closure__)
            return _empty_function, parts, _function_state(value), None, None, _fill_function
        if isinstance(value, type) and _is_own(value):
            return *_class_parts(value), None, None, _fill
        return _wrapper(value)


def _is_own(value: Any) -> bool:
    """Whether a worker cannot import ``value``: it is the script's or the notebook's, or made inside a function."""
    return value.__module__ == OWN or "<" in value.__qualname__


def _wrapper(value: Any) -> Any:
    """How to make a ``value`` that pickle does not know out of values that it knows."""
    if isinstance(value, TypeVar) and value.__module__ == OWN:
        how: Any = {name: getattr(value, f"__{name}__") for name in ("bound", "covariant", "contravariant")}
        return partial(TypeVar, **how), (value.__name__, *value.__constraints__)
    if isinstance(value, types.ModuleType):
        return importlib.import_module, (value.__name__,)
    if isinstance(value, staticmethod | classmethod):
        return type(value), (value.__func__,)
    if isinstance(value, property):
        return property, (value.fget, value.fset, value.fdel, value.__doc__)
    if isinstance(value, types.MappingProxyType):
        return _read_only, (dict(value),)
    return NotImplemented


def _read_only(values: dict[Any, Any]) -> types.MappingProxyType[Any, Any]:
    return types.MappingProxyType(values)


def _empty_cell() -> types.CellType:
    return types.CellType()


def _cell_state(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _fill_cell(cell: types.CellType, state: tuple[Any, ...]) -> None:
    if state:
        cell.cell_contents = state[0]


def _function_state(function: types.FunctionType) -> dict[str, Any]:
    known = function.__globals__
    names = ("__defaults__", "__kwdefaults__", "__dict__", "__qualname__", "__doc__", "__annotations__")
    return {
        "globals": {name: known[name] for name in sorted(_names(function.__code__)) if name in known},
        "attributes": {name: getattr(function, name) for name in names},
    }


def _names(code: types.CodeType) -> set[str]:
    """Global names that ``code`` and the functions inside it may use."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*inner)


def _empty_function(code: bytes, cells: tuple[types.CellType, ...] | None) -> types.FunctionType:
    known = {"__builtins__": builtins, "__name__": OWN}
    return types.FunctionType(marshal.loads(code), known, closure=cells)


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    _fill(function, state["attributes"])


def _class_parts(kind: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function that makes a class, its arguments, and the attributes that are set afterwards."""
    own = vars(kind)
    known = {name: value for name, value in own.items() if not _is_made_anew(name, value)}
    written = {name: value for name, value in known.items() if _is_written(value)}
    if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
        annotations = {name: known[name] for name in ("__annotations__",) if name in known}
        maker = partial(namedtuple, defaults=tuple(kind._field_defaults.values()), module=OWN)
        return maker, (kind.__name__, kind._fields), annotations | written
    first: dict[str, Any]
    if isinstance(kind, enum.EnumMeta):
        first = {name: own[name] for name in ("__init__", "_missing_") if own.get(name) is not None}
        if isinstance(new := own.get("_new_member_"), types.FunctionType):
            first["__new__"] = new
        members: Any = kind.__members__
        first |= {name: member._value_ for name, member in members.items()}
        known = {name: value for name, value in written.items() if name not in members}
    else:  # a generic class must be given its bases as they were written
        first = {name: own[name] for name in ("__orig_bases__",) if name in own}
    return _new_class, (type(kind), kind.__name__, kind.__bases__, first), known


def _is_written(value: Any) -> bool:
    """Whether a function is the user's own, and not one that Python added to the class."""
    inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    return isinstance(inner, types.FunctionType) and _is_own(inner)


def _is_made_anew(name: str, value: Any) -> bool:
    """Whether Python gives every class this attribute, or PyG generates it when a layer is made or unpickled."""
    generated = getattr(value, "__module__", None)
    if isinstance(value, types.FunctionType) and generated is not None and generated.startswith(f"{OWN}_"):
        return True
    # Slots are left out: without them, objects of the class keep the same values in a dictionary.
    if isinstance(value, types.MemberDescriptorType):
        return True
    return name in ("__dict__", "__weakref__", "__slots__") or name.startswith(("_abc_", "_orig_", "_jinja_"))


def _new_class(meta: type, name: str, bases: tuple[type, ...], first: dict[str, Any]) -> type:
    """A class that has the attributes ``first`` when it is made."""

    def fill(space: Any) -> None:
        for key, value in first.items():  # one by one: an enum notices each of its members
            space[key] = value

    return types.new_class(name, bases, {"metaclass": meta}, fill)


def _fill(target: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(target, name, value)
