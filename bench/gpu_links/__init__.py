"""Which recipe to expect to pay on which link between GPUs: computed from byte counts and published bandwidths."""
