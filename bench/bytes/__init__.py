"""Rows per layer before and after each exact reduction; see README.md."""
