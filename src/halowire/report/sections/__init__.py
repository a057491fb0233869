"""The two pages and their sections; each section tells one thing about a run, several runs or a comparison."""

from halowire.report.sections.comparison_page import write_compare_page
from halowire.report.sections.runs_page import write_report

__all__ = ["write_compare_page", "write_report"]
