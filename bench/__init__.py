"""One folder per claim: a script, its table, and how to run it."""
