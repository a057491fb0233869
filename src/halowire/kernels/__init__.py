"""The hot loops: C++ kernels, Triton kernels for GPUs, and a plain-torch twin of each, behind one dispatcher."""

from halowire.kernels.activate import activate, activate_backward
from halowire.kernels.aggregate import aggregate
from halowire.kernels.attend import MOST_HEADS, Attended, Scores, attend, attend_sources, attend_targets
from halowire.kernels.buffers import buffer_bytes, empty, release_buffers
from halowire.kernels.counter_random import Drop, keys_of, row_keys, stream_key, uniform_bits
from halowire.kernels.csr import Csr, row_range
from halowire.kernels.delta import delta_step
from halowire.kernels.dispatch import kernels_in_use, simd_level, why_twins
from halowire.kernels.joined import side_by_side, stacked
from halowire.kernels.look import Kind, Rule, joined_checksum, look, mark, peer_digests
from halowire.kernels.minimum_cover import minimum_cover
from halowire.kernels.packing import CODE_BITS, Packing, aggregate_packed, code_for, pack_rows, unpack_rows
from halowire.kernels.scan import first_outside
from halowire.kernels.sending import sent_over
from halowire.kernels.sparse_product import sparse_product
from halowire.kernels.take_rows import take_rows
from halowire.kernels.triton_devices import reason_against

__all__ = [
    "CODE_BITS", "MOST_HEADS", "Attended", "Csr", "Drop", "Kind", "Packing", "Rule", "Scores", "activate",
    "activate_backward", "aggregate", "aggregate_packed", "attend", "attend_sources", "attend_targets",
    "buffer_bytes", "code_for", "delta_step", "empty", "first_outside", "joined_checksum", "kernels_in_use", "keys_of",
    "look", "mark", "minimum_cover", "pack_rows", "peer_digests", "reason_against", "release_buffers", "row_keys",
    "row_range", "sent_over", "side_by_side", "simd_level", "sparse_product", "stacked", "stream_key", "take_rows",
    "uniform_bits", "unpack_rows", "why_twins",
]  # fmt: skip
