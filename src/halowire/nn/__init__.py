"""Layers and models on a shard."""
