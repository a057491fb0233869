"""How much of a transfer is hidden behind the computation; see README.md."""
