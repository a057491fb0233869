"""Compiles the Triton kernels for GPUs that are not here, and runs what a launch would run."""
