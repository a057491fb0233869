"""Who owns which node: partitioners, their quality, and the shards cut from a partition."""
