"""N hosts with slow links on one machine: network namespaces, joined by a switch, every link shaped; see README.md."""

from bench.netlab.lab import Lab, LabError, possible
from bench.netlab.launch import Result

__all__ = ["Lab", "LabError", "Result", "possible"]
