"""What a person sees of a run: console, HTML pages, TensorBoard; made without torch, which takes seconds to import."""

from halowire.report.comparison_record import count_line, table_rows, write_record
from halowire.report.console import Console
from halowire.report.markup import Html, join, tag
from halowire.report.run_files import mean_bubble, read_run, timelines
from halowire.report.sections import write_compare_page, write_report
from halowire.report.series import write_tensorboard
from halowire.report.units import bytes_text

__all__ = [
    "Console", "Html", "bytes_text", "count_line", "join",
    "mean_bubble", "read_run", "table_rows", "tag", "timelines", "write_compare_page", "write_record", "write_report",
    "write_tensorboard",
]  # fmt: skip
