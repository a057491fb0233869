"""Stages, chunks, schedule, historical rows: layer parallelism and its hybrid with graph parallelism."""
