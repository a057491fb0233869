"""Claim: a change of the code costs no time: no row of five benchmarks takes over 3% longer beyond the spread."""
