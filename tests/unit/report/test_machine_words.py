"""The report and the console say whose memory was measured, and why torch's operations ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from halowire.report.console import summary_rows
from halowire.report.machine_words import kernel_words, memory_owner, stand_in_words
from tests.support.pages import runs_page

MISSING = "triton is not installed; a CUDA or ROCm build of torch brings it"


@pytest.mark.parametrize(
    ("summary", "owner", "kernels", "sentence"),
    [
        ({}, "largest worker", "", ""),
        ({"device": "cpu", "kernels": "native"}, "largest worker", "native kernels", ""),
        ({"device": "cuda", "kernels": "triton"}, "largest worker's GPU", "triton kernels", ""),
        (
            {"device": "cuda", "kernels": "torch", "why_twins": MISSING},
            "largest worker's GPU",
            f"torch kernels ({MISSING})",
            f"Torch's operations stood in for halowire's own: {MISSING}.",
        ),
    ],
)
def test_words_for_every_device(summary: dict[str, Any], owner: str, kernels: str, sentence: str) -> None:
    assert (memory_owner(summary), kernel_words(summary), stand_in_words(summary)) == (owner, kernels, sentence)
    assert dict(summary_rows(summary))["peak memory"].endswith(f"({owner})")


def test_the_report_of_a_run_on_a_gpu_without_triton(run: Path, tmp_path: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    summary |= {"device": "cuda", "kernels": "torch", "why_twins": MISSING}
    (run / "summary.json").write_text(json.dumps(summary))
    text = runs_page([run], tmp_path / "page.html")
    assert "of the largest worker's GPU" in text
    assert text.count(MISSING) == 1, "it is said once"
