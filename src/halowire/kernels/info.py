"""Which kernels run here, for `halowire doctor` and for the summary of a run."""

from __future__ import annotations

from halowire.kernels.dispatch import known_levels, load_native, native_for, simd_level

__all__ = ["kernels_in_use", "known_levels", "native_available", "simd_level"]


def native_available() -> bool:
    """Whether the native module was built and can be loaded."""
    return load_native() is not None


def kernels_in_use() -> str:
    """``"native"`` or ``"torch"``: what a CPU tensor gets."""
    return "torch" if native_for() is None else "native"
