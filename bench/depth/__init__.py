"""Accuracy and convergence of 32-layer models in the pipeline against exact graph parallelism."""
