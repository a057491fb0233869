"""A tensor as it was when it was seen: later, the same memory with the same values is known without a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Seen:
    """``values`` and how often they had been changed in place; they are kept alive, so that no other tensor takes
    their memory."""

    values: Tensor
    version: int

    @staticmethod
    def now(values: Tensor) -> Seen:
        """``values`` as they are now."""
        return Seen(values, version_of(values))

    @property
    def unchanged(self) -> bool:
        """Whether the values are still those that were seen; False for inference tensors, of which it is not known."""
        return version_of(self.values) == self.version >= 0

    def still(self, values: Tensor) -> bool:
        """Whether ``values`` are this memory, unchanged since."""
        return _same_memory(values, self.values) and self.unchanged and version_of(values) == self.version


def version_of(values: Tensor) -> int:
    """How often ``values`` were changed in place; -1 for an inference tensor, of which it is not known."""
    return -1 if values.is_inference() else values._version


def _same_memory(first: Tensor, second: Tensor) -> bool:
    place = first.data_ptr() == second.data_ptr() and first.dtype == second.dtype
    return place and first.shape == second.shape and first.stride() == second.stride()
