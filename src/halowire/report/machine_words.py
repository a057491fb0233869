"""What the report and the console say of the machine that a run used: whose memory was measured, which kernels ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def memory_owner(summary: Mapping[str, Any]) -> str:
    """Whose peak memory the summary has; runs of earlier versions were on the CPU or do not say where."""
    on_gpu = summary.get("device") not in (None, "cpu")
    return "largest worker's GPU" if on_gpu else "largest worker"


def kernel_words(summary: Mapping[str, Any]) -> str:
    """Which kernels ran, and why torch's operations did if they were not asked for; empty where that is not known."""
    kernels, why = summary.get("kernels"), summary.get("why_twins")
    if kernels in (None, ""):
        return ""
    return f"{kernels} kernels" + (f" ({why})" if kernels == "torch" and why else "")


def stand_in_words(summary: Mapping[str, Any]) -> str:
    """A sentence for a run in which torch stood in for halowire's kernels; empty for other runs."""
    if summary.get("kernels") in (None, "", "native", "triton"):
        return ""
    why = summary.get("why_twins")
    return f"Torch's operations stood in for halowire's own: {why or 'this machine has no native kernels'}."
