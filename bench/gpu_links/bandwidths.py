"""Published bandwidths, in bytes per second, of one GPU and of the links that GPUs have."""

from __future__ import annotations

GPU = "A100 40 GB"
MEMORY = 1555e9
"""Of the GPU's memory (NVIDIA, A100 datasheet)."""
PRODUCTS = 19.5e12 / 2
"""Multiplications and additions of float32 in a second (the same datasheet: 19.5 TFLOPS)."""

LINKS = {
    "NVLink 3": 300e9,  # 600 GB/s in both directions together (the same datasheet)
    "PCIe 4.0 x16": 31.5e9,  # 16 GT/s, 16 lanes, 128b/130b (PCI-SIG)
    "100 Gbit/s Ethernet": 12.5e9,
    "10 Gbit/s Ethernet": 1.25e9,
    "1 Gbit/s Ethernet": 0.125e9,
}
"""Of a link in one direction, before any protocol."""
