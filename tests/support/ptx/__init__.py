"""Executes the PTX of a compiled kernel on the CPU, with the checks of memory and races that a GPU does not make."""
