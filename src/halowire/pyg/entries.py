"""Where a pass of a distributed model may begin: its forward, a method of the user's own, or a module inside it.

PyG's examples call ``model.encode(x, edge_index)``, and ``GAE`` calls its ``encoder``. Whatever is called with the
edges of a part, while no pass is under way, begins one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import nn

from halowire.errors import InputError
from halowire.pyg.data_part import holds_graph
from halowire.pyg.picked_inputs import explained
from halowire.pyg.rehearsal import UncheckableError

LIBRARIES = ("torch.", "torch_geometric.", "builtins")
"""Packages whose methods are no entries: they call modules, which are."""
SHOWN = ("not on a shard", "self._index_select(", "joined with other numbers")
"""Parts of refusals that the inputs may explain; PyG looks at the numbers of edges only where reading rows failed."""


def refuse_compiled() -> None:
    """Refuse a pass inside of what ``torch.compile`` runs.

    Torch asks its callback for every frame that it may compile. It cannot trace this question, so that it runs here in
    plain Python, before torch gets to see marked tensors and hooks, whose code it cannot follow.
    """
    if callable(torch._C._dynamo.eval_frame.get_eval_frame_callback()):
        raise InputError(
            "torch.compile of a distributed model cannot follow edges to other workers; leave it out, and compile the "
            "layers that are not called with edge_index instead, after halowire.distribute: model.mlp.compile()"
        )


class Passes(Protocol):
    """What runs a pass: it begins for an entry, and ends with what was computed."""

    @property
    def running(self) -> bool:
        """Whether a pass is under way."""

    def begin(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        """Begin a pass; returns other arguments, where the given ones are to be replaced."""

    def end(self, out: Any) -> Any:
        """End the pass; returns what takes the place of ``out``."""


class ModuleEntry:
    """The hooks of one module, which begin and end a pass where the module is called with edges from outside."""

    def __init__(self, passes: Passes, entry: str) -> None:
        self._passes = passes
        self._entry = entry
        self._began = False

    def before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        """Begin a pass, unless one is under way, or a module inside of the model is called without edges."""
        if self._passes.running or (self._entry and not holds_graph((args, kwargs))):
            return None
        refuse_compiled()
        given = _begin(self._passes, self._entry, args, kwargs)
        self._began = True
        return given

    def after(self, module: nn.Module, args: Any, out: Any) -> Any:
        """End the pass that this module began, also where it failed and ``out`` is None."""
        if not self._began:
            return None
        self._began = False
        return self._passes.end(out)


class MethodEntry:
    """Stands in for a method of the user's model; a call with edges from outside is a pass."""

    def __init__(self, passes: Passes, entry: str, model: nn.Module) -> None:
        self._passes = passes
        self._entry = entry
        self._model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, in a pass of its own where there are edges among its arguments."""
        method = getattr(type(self._model), self._entry)
        if self._passes.running or not holds_graph((args, kwargs)):
            return method(self._model, *args, **kwargs)
        refuse_compiled()
        args, kwargs = _begin(self._passes, self._entry, args, kwargs) or (args, kwargs)
        out = None
        try:
            out = method(self._model, *args, **kwargs)
        finally:
            out = self._passes.end(out)
        return out


def _begin(passes: Passes, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """Begin a pass, or say what to call instead where the inputs show it."""
    try:
        return passes.begin(entry, args, kwargs)
    except InputError as error:
        if isinstance(error, UncheckableError) or any(words in str(error) for words in SHOWN):
            raise explained(error, (args, kwargs)) from error
        raise


def own_methods(model: nn.Module) -> Iterator[str]:
    """The names of the public methods that the user's classes of ``model`` define beside ``forward``."""
    names: dict[str, Callable[..., Any]] = {}
    for kind in type(model).__mro__:
        if not kind.__module__.startswith(LIBRARIES) and kind.__module__ != "torch":
            names |= {name: value for name, value in vars(kind).items() if name not in names}
    for name, value in names.items():
        inherited = hasattr(nn.Module, name)
        if inspect.isfunction(value) and not name.startswith("_") and not inherited:
            yield name
