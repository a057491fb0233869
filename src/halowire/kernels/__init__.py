"""The hot loops: C++ kernels, each with a plain-torch twin, behind one dispatcher."""

from halowire.kernels.activate import activate, activate_backward
from halowire.kernels.aggregate import aggregate
from halowire.kernels.buffers import buffer_bytes, empty, release_buffers
from halowire.kernels.csr import Csr
from halowire.kernels.info import kernels_in_use, native_available, simd_level
from halowire.kernels.packing import Packing, aggregate_packed, pack_rows, unpack_rows
from halowire.kernels.random import Drop, row_keys, uniform_bits
from halowire.kernels.rows import take_rows

__all__ = [
    "Csr",
    "Drop",
    "Packing",
    "activate",
    "activate_backward",
    "aggregate",
    "aggregate_packed",
    "buffer_bytes",
    "empty",
    "kernels_in_use",
    "native_available",
    "pack_rows",
    "release_buffers",
    "row_keys",
    "simd_level",
    "take_rows",
    "uniform_bits",
    "unpack_rows",
]
