"""A model that picks edges by a mask in every pass gets them from lists of places that are kept with the edges.

Layers of PyG take the self loops out of their edges by ``row != col``, and pick the edges of a type by
``edge_type == i``. On a device the host waits wherever a mask picks, as it does not know how many entries are true:

    edges[:, row != col]  ->  edges[:, places]         with ``places`` found in the first pass

The places depend on the edges alone. They are kept while these stay the same memory, unchanged, and found anew where
they do not; the mask itself is computed in every pass, which needs no wait. Those of a mask of nodes that a model is
called with, such as ``train_mask``, are kept in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.pyg.leaves import changed, leaves
from halowire.pyg.seen import Seen, version_of

MOST_KNOWN = 4
"""Lists of edges, or of their types, that are known at a time: most models have one of each."""
EQUAL, OTHER = ("eq", "__eq__"), ("ne", "__ne__")
NOT = ("__invert__", "bitwise_not", "logical_not")
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
Number = int | float | None


class Known:
    """Where the entries of two tensors are equal, or those of one equal a number, and where they are not."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self._seen = tuple(Seen.now(values) for values in tensors)
        self._places: dict[tuple[Number, bool], Tensor] = {}
        self._largest_of: dict[tuple[Number, bool], tuple[Seen, int]] = {}
        self._largest: dict[tuple[int, Number, bool], int] = {}

    def serves(self, tensors: tuple[Tensor, ...]) -> bool:
        """Whether these are the tensors, unchanged."""
        same = len(tensors) == len(self._seen)
        return same and all(seen.still(values) for seen, values in zip(self._seen, tensors, strict=True))

    def places(self, number: Number, alike: bool, mask: Tensor) -> Tensor:
        """The places at which ``mask`` is true, which says where the entries are ``alike``, or where they are not."""
        if (number, alike) not in self._places:
            self._places[number, alike] = mask.nonzero().view(-1)
        return self._places[number, alike]

    def largest_of(self, mask: EdgeMask, source: Tensor, picked: Tensor) -> int:
        """The largest of the entries ``picked`` by ``mask`` of any ``source``, while that is the same, unchanged."""
        key = mask.number, mask.alike
        seen, largest = self._largest_of.get(key, (None, 0))
        if seen is None or not seen.still(source):
            largest = int(picked.max())
            self._largest_of[key] = Seen.now(source), largest
        return largest

    def largest(self, number: Number, alike: bool, tensor: Tensor, picked: Tensor) -> int | None:
        """The largest of the entries ``picked`` of ``tensor``, -1 for none; None for a tensor that is not known."""
        side = next((side for side, seen in enumerate(self._seen) if seen.still(tensor)), None)
        if side is None:
            return None
        key = (side, number, alike)
        if key not in self._largest:
            self._largest[key] = int(picked.max()) if picked.numel() else -1
        return self._largest[key]


class KnownIndex(Tensor):
    """Whole numbers that a mask has picked, such as the targets of one type of edges; their largest is kept.

    PyG's softmax asks for it in every pass, to know how many nodes there are.
    """

    mask: EdgeMask
    source: Tensor
    made: int

    @staticmethod
    def of(picked: Tensor, mask: EdgeMask, source: Tensor) -> Tensor:
        """``picked`` by ``mask`` from ``source``."""
        index: KnownIndex = picked.as_subclass(KnownIndex)
        index.mask = mask
        index.source = source
        index.made = version_of(picked)
        return index

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func`` on plain numbers, but for their largest."""
        first: Any = args[0] if args else None
        alone = len(args) == 1 and not kwargs and isinstance(first, KnownIndex)
        if alone and func in (Tensor.max, torch.max, Tensor.amax):
            bare = _plain(first)
            if bare.numel() and version_of(bare) == first.made >= 0 and first.mask.is_as_made:
                return torch.tensor(first.mask.known.largest_of(first.mask, first.source, bare), dtype=bare.dtype)
        return func(*unmasked(args), **unmasked(kwargs or {}))


class KnownEdges:
    """What is known of lists of edges, and of their types; those that are asked for again stay longest."""

    def __init__(self) -> None:
        self._known: list[Known] = []

    def compare(self, func: Callable[..., Any], first: Tensor, second: Tensor | float) -> Tensor:
        """``first == second`` or ``first != second``, as ``func`` says, as a mask that knows its places."""
        tensors, number = ((first, second), None) if isinstance(second, Tensor) else ((first,), second)
        return EdgeMask.of(func(first, second), self._of(tensors), number, func.__name__ in EQUAL)

    def mask(self, values: Tensor) -> Tensor:
        """The mask ``values`` as one that knows its places."""
        return EdgeMask.of(values, self._of((values,)), None, True)

    def _of(self, tensors: tuple[Tensor, ...]) -> Known:
        """What is known of ``tensors``, which are asked for now."""
        known = next((known for known in self._known if known.serves(tensors)), None)
        if known is None:
            known = Known(tensors)
            self._known = [*self._known[: MOST_KNOWN - 1], known]
        else:
            self._known.remove(known)
            self._known.insert(0, known)
        return known


class EdgeMask(Tensor):
    """bool ``[E]``, true where entries are ``alike``, to each other or to a ``number``, or where they are not.

    Where it picks entries of a tensor, the ``known`` places pick them. Everything else treats it as the mask it is, and
    so does picking once the mask was changed in place.
    """

    known: Known
    number: Number
    alike: bool
    made: int

    @staticmethod
    def of(values: Tensor, known: Known, number: Number, alike: bool) -> Tensor:
        """The mask ``values``, whose places are ``known``."""
        mask: EdgeMask = values.as_subclass(EdgeMask)
        mask.known = known
        mask.number = number
        mask.alike = alike
        mask.made = version_of(values)
        return mask

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func`` on plain masks, and on lists of places where it picks or sets entries by a mask."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        first: Any = args[0] if args else None
        if isinstance(first, EdgeMask):
            values = func(*unmasked(args), **unmasked(kwargs))
            flipped = name in NOT and len(args) == 1 and not kwargs and first.is_as_made
            return EdgeMask.of(values, first.known, first.number, not first.alike) if flipped else values
        if name == "__getitem__" and isinstance(args[1], EdgeMask) and _is_index(first):
            return KnownIndex.of(func(first, listed(args[1], first.shape)), args[1], first)
        if name == "__getitem__" or (name == "__setitem__" and isinstance(args[2], Tensor)):
            return func(first, listed(args[1], first.shape), *unmasked(args[2:]))
        return func(*unmasked(args), **unmasked(kwargs))

    @property
    def bare(self) -> Tensor:
        """The mask without its mark."""
        return _plain(self)

    @property
    def is_as_made(self) -> bool:
        """Whether the mask was not changed in place."""
        return version_of(self.bare) == self.made >= 0

    @property
    def places(self) -> Tensor:
        """The places where the mask is true."""
        bare = self.bare
        return self.known.places(self.number, self.alike, bare) if self.is_as_made else bare.nonzero().view(-1)

    def largest(self, tensor: Tensor, picked: Tensor) -> int | None:
        """The largest of the entries ``picked`` of ``tensor`` by this mask, where it is known; see `Known`."""
        return self.known.largest(self.number, self.alike, tensor, picked) if self.is_as_made else None


class EdgeTypes(Tensor):
    """Whole numbers ``[E]`` of a part's edges; compared with a number they give a mask that knows its places."""

    edges: KnownEdges

    @staticmethod
    def of(values: Tensor, edges: KnownEdges) -> Tensor:
        """``values``, with what is known of the ``edges`` and their types."""
        types: EdgeTypes = values.as_subclass(EdgeTypes)
        types.edges = edges
        return types

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func`` on plain numbers."""
        first: Any = args[0] if args else None
        plain = unmasked(args)
        asked = getattr(func, "__name__", "") in (*EQUAL, *OTHER) and len(args) == 2 and isinstance(first, EdgeTypes)
        if asked and isinstance(args[1], int | float):
            return first.edges.compare(func, *plain)
        return func(*plain, **unmasked(kwargs or {}))


def with_masks(value: Any, masks: KnownEdges, count: int) -> Any:
    """``value``, also inside tuples, lists and dictionaries, where masks of ``count`` nodes know their places."""

    def fits(leaf: Any) -> bool:
        return isinstance(leaf, Tensor) and leaf.dtype == torch.bool and leaf.shape == (count,)

    if not any(fits(leaf) for leaf in leaves(value)):
        return value
    return changed(value, lambda leaf: masks.mask(leaf) if fits(leaf) else leaf)


def with_types(value: Any, edges: KnownEdges, count: int) -> Any:
    """``value``, also inside tuples, lists and dictionaries, with marks on whole numbers of ``count`` edges."""

    def fits(leaf: Any) -> bool:
        return isinstance(leaf, Tensor) and leaf.dtype in WHOLE and leaf.shape == (count,)

    if not any(fits(leaf) for leaf in leaves(value)):
        return value
    return changed(value, lambda leaf: EdgeTypes.of(leaf, edges) if fits(leaf) else leaf)


def listed(index: Any, shape: torch.Size) -> Any:
    """``index`` of a tensor of this ``shape`` with lists of places for the masks that know theirs.

    A mask that does not fit stays one, so that torch refuses it.
    """
    items = index if isinstance(index, tuple) else (index,)
    fits = len(items) <= len(shape) and all(
        item.numel() == extent if isinstance(item, EdgeMask) else isinstance(item, int | slice)
        for item, extent in zip(items, shape, strict=False)
    )
    if not fits:
        return unmasked(index)
    found = tuple(item.places if isinstance(item, EdgeMask) else item for item in items)
    return found if isinstance(index, tuple) else found[0]


def _is_index(value: Any) -> bool:
    """Whether ``value`` is a plain list of numbers."""
    return isinstance(value, Tensor) and not isinstance(value, EdgeTypes) and value.dtype in WHOLE and value.dim() == 1


def unmasked(value: Any) -> Any:
    """``value``, also inside tuples, lists and dictionaries, without the marks of this file."""
    return changed(value, lambda leaf: _plain(leaf) if isinstance(leaf, EdgeMask | EdgeTypes | KnownIndex) else leaf)


def _plain(value: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(Tensor)
