"""Models that know nothing of shards: PyTorch Geometric layers and whatever else indexes nodes by edges."""
