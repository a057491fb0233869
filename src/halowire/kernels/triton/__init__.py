"""The Triton kernels, for GPUs; only the dispatcher imports this folder, and only where triton is installed.

No kernel uses atomics: every sum has one order, so that a run repeats exactly. What is packed, unpacked or kept by both
ends of a message is computed without fused or approximate operations, so that its bits are those of the C++ kernels.
"""

from halowire.kernels.triton.attention_back import attend_sources, attend_targets
from halowire.kernels.triton.attention_forth import attend
from halowire.kernels.triton.fused_activation import activate
from halowire.kernels.triton.fused_activation_back import activate_backward
from halowire.kernels.triton.memory_step import delta_step
from halowire.kernels.triton.packed_sums import aggregate_packed
from halowire.kernels.triton.packer import pack_rows
from halowire.kernels.triton.unpacker import unpack_rows

__all__ = [
    "activate", "activate_backward", "aggregate_packed", "attend", "attend_sources", "attend_targets", "delta_step",
    "pack_rows", "unpack_rows",
]  # fmt: skip
