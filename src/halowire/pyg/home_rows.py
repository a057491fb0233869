"""Rows of a worker's nodes that know the same rows of its halo, so that reading them by edges sends nothing.

A worker has the features of its halo. Whatever a model does to them row by row (products with weights, activations,
norms, dropout by node), it can do to the halo's rows too, with its own copy of the weights; `HomeRows` carries both.
The first sum over edges of features that never change, ``m = A x``, never changes either, so its halo rows come from
their owners once. Backward, the gradient of a copy joins this worker's weight gradients; backward is linear, so the sum
over all workers is the exact one. Any other operation gives the owned rows alone, and these travel as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.kernels import Drop, activate
from halowire.pyg.leaves import changed, leaves
from halowire.wire import sent_over

EACH_VALUE = {
    "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "elu", "elu_", "selu", "selu_", "celu", "gelu", "silu",
    "sigmoid", "tanh", "softplus", "hardtanh", "hardswish", "mish", "logsigmoid", "abs", "exp", "neg", "square",
    "clone", "contiguous", "detach", "float", "to", "__neg__",
}  # fmt: skip
"""Functions of every value by itself."""
TOGETHER = {
    "add", "sub", "mul", "div", "true_divide", "rsub", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__",
    "__rmul__", "__truediv__",
}  # fmt: skip
"""Functions of two tensors, value by value: both are `HomeRows`, or one is the same for all rows: a number, or ``[k]``
beside rows ``[n, k]``.

A tensor ``[1, k]`` may be one row for all of them, or the only row of a worker with one node, and does not count."""
PRODUCTS = {"linear", "matmul", "__matmul__", "mm"}
"""Products of rows with a matrix."""
FIRST_DRAW = 1 << 20
"""Draws of dropout are numbered from here on, so that no number is also a layer of the policy."""


class Home:
    """What all `HomeRows` of one pass share.

    Attributes:
        bridge: the bridge whose halo they know.
        draws: the seed and the epoch of this pass's dropout; None where nothing is dropped, as in a rehearsal.
        saved: widths of the exchanges that were not needed so far.
        summed: whether sums of features were used.
        sums_anew: whether a layer has summed the same features before, over other edges or with other weights.
        drawn: whether values were dropped, by draws that belong to the nodes.
    """

    def __init__(self, bridge: Any, draws: tuple[int, int] | None = None) -> None:
        self.bridge = bridge
        self.draws = draws
        self.saved: list[int] = []
        self.summed = False
        self.sums_anew = False
        self.drawn = False
        self._num_draws = 0

    def welcome(self, value: Any) -> Any:
        """``value``, also inside tuples, lists and dictionaries, whose kept features know their halo."""
        return changed(value, self._welcome)

    def _welcome(self, leaf: Any) -> Any:
        kept = self.bridge.kept_halo(leaf)
        return leaf if kept is None or kept.dim() != 2 else HomeRows.of(leaf, kept, self, constant=True)

    def factors(self, p: float, width: int) -> tuple[Tensor, Tensor]:
        """The factors of the next dropout, for owned and for halo rows: a node has the same ones on all workers."""
        assert self.draws is not None
        self._num_draws += 1
        shard, device = self.bridge.shard, self.bridge.passing.device
        found = []
        for ids in (shard.ids, shard.halo_ids):
            drop = Drop(p, *self.draws, FIRST_DRAW + self._num_draws, sent_over(ids, device))
            ones = torch.ones(ids.numel(), width, device=device)
            found.append(activate(ones, None, None, False, drop, out=torch.empty_like(ones))[0])
        return found[0], found[1]


class HomeRows(Tensor):
    """A tensor with a row for each owned node, and ``halo`` with a row for each node of the halo.

    ``constant``: the rows are features, or sums of features, and have no gradient. ``origin`` is (such rows, a weight)
    where these rows are their product.
    """

    halo: Tensor
    home: Home
    constant: bool
    origin: tuple[HomeRows, Tensor] | None
    version: int

    @staticmethod
    def of(own: Tensor, halo: Tensor, home: Home, constant: bool = False) -> HomeRows:
        """``own`` rows that know the rows of the ``halo``."""
        rows: HomeRows = bare(own).as_subclass(HomeRows)
        rows.halo = halo
        rows.home = home
        rows.constant = constant
        rows.origin = None
        rows.version = _version(rows)
        return rows

    def knows(self, bridge: Any) -> bool:
        """Whether the halo's rows are those of ``bridge``, and the owned rows were not changed in place since."""
        return self.home.bridge is bridge and self.version == _version(self)

    def read(self) -> Tensor:
        """Owned and halo rows, ``[n + h, k]``, for which no message was needed."""
        if not self.constant:
            self.home.saved.append(self.shape[1])
        return torch.cat([bare(self), self.halo])

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func`` on the owned rows and, where it works row by row, on those of the halo."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if any(_rule(kind) not in (_rule(Tensor), _rule(HomeRows)) for kind in types):
            return NotImplemented  # edges read these rows by rules of their own
        if name == "__get__":  # an attribute of the rows themselves, such as the node that made them in autograd
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        rows = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, HomeRows)]
        known = all(row.version == _version(row) and row.home is rows[0].home for row in rows)
        if known and name == "view_as" and len(args) == 2 and args[0] is args[1]:
            return _passed_on(func, args[0])
        if known and name == "dropout" and rows[0].home.draws is not None:
            return _dropped(func, args, kwargs)
        by_row = known and _by_row(name, args, kwargs)
        own = func(*bare(args), **bare(kwargs))
        if not by_row or not isinstance(own, Tensor):
            return own
        found = HomeRows.of(own, func(*_halves(args), **_halves(kwargs)), rows[0].home)
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        if name == "linear" and rows[0].constant and bias is None and len(args) > 1:
            found.origin = rows[0], args[1]
        return found


def _passed_on(func: Callable[..., Any], rows: HomeRows) -> HomeRows:
    """``rows.view_as(rows)``, by which the backward hook of a module passes its inputs on, without a gradient there.

    The halo stays the tensor that it is, so that its gradient goes past the hook, which sees that of the owned rows.
    """
    found = HomeRows.of(func(bare(rows), bare(rows)), rows.halo, rows.home, rows.constant)
    found.origin = rows.origin
    return found


@cache
def _rule(kind: type) -> Any:
    """What decides on the functions of tensors of this ``kind``."""
    return getattr(getattr(kind, "__torch_function__", None), "__func__", None)


def bare(value: Any) -> Any:
    """``value``, also inside tuples, lists and dictionaries, with owned rows alone."""
    return changed(value, _bare)


def _bare(leaf: Any) -> Any:
    if isinstance(leaf, HomeRows):
        with torch._C.DisableTorchFunctionSubclass():
            return leaf.as_subclass(Tensor)
    return leaf


def _halves(value: Any) -> Any:
    return changed(value, lambda leaf: leaf.halo if isinstance(leaf, HomeRows) else leaf)


def _version(rows: Tensor) -> int:
    with torch._C.DisableTorchFunctionSubclass():
        return -1 if rows.is_inference() else rows._version


def _by_row(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the function ``name`` makes every row of its result of the same row of its `HomeRows` alone."""
    if "out" in kwargs or not args:
        return False
    if name in ("cat", "concat"):
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        return dim in (1, -1) and all(isinstance(item, HomeRows) and item.dim() == 2 for item in args[0])
    tensors = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if name in TOGETHER:
        least = min(leaf.dim() for leaf in tensors if isinstance(leaf, HomeRows))
        return all(isinstance(leaf, HomeRows) or leaf.dim() < least for leaf in tensors)
    alone = isinstance(args[0], HomeRows) and sum(isinstance(leaf, HomeRows) for leaf in tensors) == 1
    return alone and _of_one(name, args, kwargs, len(tensors))


def _of_one(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], num_tensors: int) -> bool:
    """The same for a function of one tensor with rows of nodes."""
    if name == "layer_norm":
        return bool(len(args[1]) < args[0].dim())
    if name == "batch_norm":  # with running statistics; those of a batch are taken of all rows
        return kwargs.get("training", len(args) > 5 and args[5]) is False
    return name in PRODUCTS or (name in EACH_VALUE and num_tensors == 1)


def drops_by_node(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the function ``name`` is a dropout whose result knows its halo, because a copy of a row drops alike."""
    given = _of_dropout(args, kwargs)
    rows, p = given["input"], given.get("p", 0.5)
    drops = name == "dropout" and not given.get("inplace") and 0 <= p < 1
    return drops and isinstance(rows, HomeRows) and rows.dim() == 2


def _of_dropout(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(("input", "p", "training", "inplace"), args, strict=False)) | kwargs


def _dropped(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Dropout whose factors belong to the nodes, so that a copy of a row drops what its owner drops."""
    if not drops_by_node("dropout", args, kwargs):
        return func(*bare(args), **bare(kwargs))
    given = _of_dropout(args, kwargs)
    rows, p = given["input"], given.get("p", 0.5)
    if not given.get("training", True) or p == 0:
        return rows
    own, halo = rows.home.factors(p, rows.shape[1])
    return HomeRows.of(bare(rows) * own.to(rows.dtype), rows.halo * halo.to(rows.dtype), rows.home)


def changing(rows: HomeRows) -> HomeRows:
    """``rows`` as if they were others in every pass, as dropout by node makes them."""
    rows.home.drawn = True
    return HomeRows.of(rows, rows.halo, rows.home)


def product(rows: HomeRows, weight: Tensor) -> HomeRows:
    """``rows @ weight.T``, of owned and of halo rows."""
    return HomeRows.of(F.linear(bare(rows), weight), F.linear(rows.halo, weight), rows.home)
