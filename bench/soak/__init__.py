"""Faults that are really injected into running programs, and what became of every one of them; see README.md."""
