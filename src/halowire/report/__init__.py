"""Console output, the HTML report and TensorBoard."""

from __future__ import annotations

from halowire.report.compare_page import write_compare_page
from halowire.report.console import Console
from halowire.report.html import write_report
from halowire.report.tensorboard import write_tensorboard

__all__ = ["Console", "write_compare_page", "write_report", "write_tensorboard"]
