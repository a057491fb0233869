"""Measured errors of the codes beside their formulas."""
