"""Graph parallelism, pipeline, hybrid and one-bit pipeline with 32 layers on a slow network."""
