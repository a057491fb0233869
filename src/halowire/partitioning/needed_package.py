"""Partitioners that are packages of their own may be missing; then the extra to install is named."""

from __future__ import annotations

import importlib.util

from halowire.errors import InputError


def is_installed(package: str) -> bool:
    """Whether the ``package`` of a partitioner is there; it is not imported."""
    return importlib.util.find_spec(package) is not None


def require_package(package: str, method: str) -> None:
    """Refuse the ``method`` where the ``package`` that it runs on is not installed."""
    if not is_installed(package):
        raise InputError(
            f"partition method {method!r} needs the package {package}, which is not installed: "
            "pip install 'halowire[partition]', or use method 'metis'"
        )
