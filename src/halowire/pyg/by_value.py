"""Values handed to the program's own workers: classes of a script or a notebook travel with their code.

This is the one place that pickles: the program writes the file, only this user can read it, and its children do.
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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

OWN = "__main__"
"""The module whose classes and functions a worker cannot import."""


def pack_by_value(value: Any) -> bytes:
    """``value`` as bytes for `read_by_value`; raises whatever pickling raises where it cannot be packed."""
    buffer = io.BytesIO()
    _ByValue(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def write_by_value(value: Any, file: Path) -> None:
    """Write ``value`` to ``file``, which only this user can read."""
    write_packed(pack_by_value(value), file)


def write_packed(packed: bytes, file: Path) -> None:
    """Write what `pack_by_value` gave to ``file``, which only this user can read."""
    file.touch(mode=0o600)
    file.write_bytes(packed)


def read_by_value(file: Path) -> Any:
    """What the program that started this worker wrote with `write_by_value`."""
    return pickle.loads(file.read_bytes())


class _ByValue(pickle.Pickler):
    """Pickles classes and functions of the main module and of functions by their content, the rest as usual."""

    def reducer_override(self, value: Any) -> Any:
        """How a worker makes ``value`` anew, in the form that pickle asks for."""
        if isinstance(value, types.CellType):
            # A cell is made empty and filled later: a method's cell holds the class that holds the method.
            return _empty_cell, (), _cell_state(value), None, None, _fill_cell
        if isinstance(value, types.FunctionType) and _is_own(value):
            parts: tuple[Any, ...] = (marshal.dumps(value.__code__), value.__closure__)
            return _empty_function, parts, _function_state(value), None, None, _fill_function
        if isinstance(value, type) and _is_own(value):
            return *_maker(value), _class_state(value), None, None, _fill_class
        return _wrapper(value)


def _maker(kind: type) -> tuple[Callable[..., type], tuple[Any, ...]]:
    """What makes a class without its attributes, and the arguments for it."""
    if isinstance(kind, enum.EnumMeta):
        named: Mapping[str, Any] = kind.__members__
        members = [(name, member._value_) for name, member in named.items()]
        makers = {name: value for name in ("__init__", "_missing_") if (value := vars(kind).get(name)) is not None}
        if isinstance(new := vars(kind).get("_new_member_"), types.FunctionType):
            makers["__new__"] = new
        return _enum, (type(kind), kind.__name__, kind.__bases__, members, makers)
    if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
        defaults = tuple(kind._field_defaults.values())  # type: ignore[attr-defined]
        return _named_tuple, (kind.__name__, kind._fields, defaults)
    return _empty_class, (type(kind), kind.__name__, kind.__bases__, vars(kind).get("__orig_bases__"))


def _wrapper(value: Any) -> Any:
    """How to make what pickle does not know out of what it knows."""
    if isinstance(value, TypeVar) and value.__module__ == OWN:
        how = {"covariant": value.__covariant__, "contravariant": value.__contravariant__}
        return _type_var, (value.__name__, value.__constraints__, {"bound": value.__bound__, **how})
    if isinstance(value, types.ModuleType):
        return importlib.import_module, (value.__name__,)
    if isinstance(value, staticmethod | classmethod):
        return type(value), (value.__func__,)
    if isinstance(value, property):
        return property, (value.fget, value.fset, value.fdel, value.__doc__)
    if isinstance(value, types.MappingProxyType):
        return _read_only, (dict(value),)
    return NotImplemented


def _is_own(value: Any) -> bool:
    """Whether a worker cannot import ``value``: it is the script's or the notebook's, or made inside a function."""
    return value.__module__ == OWN or "<" in value.__qualname__


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
    return {
        "globals": {name: known[name] for name in sorted(_names(function.__code__)) if name in known},
        "attributes": {
            name: getattr(function, name)
            for name in ("__defaults__", "__kwdefaults__", "__dict__", "__qualname__", "__doc__", "__annotations__")
        },
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
    for name, value in state["attributes"].items():
        setattr(function, name, value)


def _class_state(kind: type) -> dict[str, Any]:
    known = {name: value for name, value in vars(kind).items() if not _is_made_anew(name, value)}
    if isinstance(kind, enum.EnumMeta):
        return {name: value for name, value in known.items() if name not in kind.__members__ and _is_written(value)}
    if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
        return {name: value for name, value in known.items() if name == "__annotations__" or _is_written(value)}
    return known


def _is_written(value: Any) -> bool:
    """Whether a function is the user's own, and not one that its class was given by Python."""
    inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    return isinstance(inner, types.FunctionType) and _is_own(inner)


def _is_made_anew(name: str, value: Any) -> bool:
    """Whether every class gets this by itself, or PyG generates it for a layer that is made or unpickled."""
    generated = getattr(value, "__module__", None)
    if isinstance(value, types.FunctionType) and generated is not None and generated.startswith(f"{OWN}_"):
        return True
    # Without its slots, a class keeps the same values in a dictionary.
    if isinstance(value, types.MemberDescriptorType):
        return True
    return name in ("__dict__", "__weakref__", "__slots__") or name.startswith(("_abc_", "_orig_", "_jinja_"))


def _empty_class(meta: Callable[..., type], name: str, bases: tuple[type, ...], written: Any) -> type:
    # A generic class must be told what its bases were written as.
    first = {} if written is None else {"__orig_bases__": written}
    return types.new_class(name, bases, {"metaclass": meta}, lambda space: space.update(first))


def _enum(
    meta: Callable[..., type],
    name: str,
    bases: tuple[type, ...],
    members: list[tuple[str, Any]],
    makers: dict[str, Any],
) -> type:
    def fill(space: Any) -> None:
        for key, value in (*makers.items(), *members):
            space[key] = value

    return types.new_class(name, bases, {"metaclass": meta}, fill)


def _named_tuple(name: str, fields: tuple[str, ...], defaults: tuple[Any, ...]) -> type:
    made: type = namedtuple(name, fields, defaults=defaults, module=OWN)  # type: ignore[misc]
    return made


def _type_var(name: str, constraints: tuple[Any, ...], how: dict[str, Any]) -> Any:
    return TypeVar(name, *constraints, **how)


def _fill_class(kind: type, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(kind, name, value)
