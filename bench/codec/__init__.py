"""Claim: one-bit encoding and decoding each take in or give out at least 3 GB/s of float32 per core."""
