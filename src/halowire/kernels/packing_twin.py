"""The torch twin of the packing kernels; its bytes and its decoded values equal native code's bit for bit."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels.counter_random import keys_of, uniform_bits

PARTIALS = 16
LARGEST, NOT_A_NUMBER = 0x7F7F, 0x7FC0
SCALE = 2.0**-32
# Half the range of the equally spaced levels, divided by the row's mean absolute deviation; see packing.py.
REACH = {1: 1.5, 2: torch.tensor(1.8723).item(), 4: torch.tensor(3.151).item()}


def pack_rows(
    x: Tensor,
    bits: int,
    code: str,
    stream: int,
    ids: Tensor,
    out: Tensor,
    size: int,
    columns: Tensor | None,
    targets: tuple[Tensor, Tensor] | None,
) -> None:
    """Pack every row of ``x`` into ``size`` bytes and write them to its positions in ``out``."""
    picked = x if columns is None else x.index_select(1, columns)
    if bits == 16:
        packed = low_bytes(nearest(picked), 2).flatten(1)
    elif picked.shape[1] == 0:
        packed = out.new_zeros(x.shape[0], size)
    else:
        if code == "minmax":
            lo, hi, q = minmax(picked, bits, uniform(x, stream, ids, columns))
        elif code == "clipped":
            lo, hi, q = clipped_levels(picked, bits, uniform(x, stream, ids, columns))
        else:
            lo, hi, q = two_levels(picked) if bits == 1 else clipped_levels(picked, bits)
        packed = torch.cat([low_bytes(torch.stack([lo, hi], 1), 2).flatten(1), payload(q, bits)], 1)
    if targets is None:
        positions = torch.arange(x.shape[0], device=x.device)
    else:
        positions = used_positions(*targets).long()
        packed = packed.repeat_interleave(targets[0].diff(), 0, output_size=positions.numel())
    scatter(packed, positions, out, size)


def used_positions(indptr: Tensor, positions: Tensor) -> Tensor:
    """The positions between the ends of ``indptr``; on a device all, since the host would wait to read the ends."""
    return positions[int(indptr[0]) : int(indptr[-1])] if indptr.device.type == "cpu" else positions


def scatter(packed: Tensor, positions: Tensor, out: Tensor, size: int) -> None:
    """Write ``packed[i]`` to row ``positions[i]`` of ``out``, seen as rows of ``size`` bytes."""
    if not positions.numel() or not size:
        return
    places = out.numel() // size
    if positions.device.type == "cpu" and (int(positions.min()) < 0 or int(positions.max()) >= places):
        raise outside(positions, places, size)
    out.view(-1)[: places * size].view(places, size)[positions] = packed


def outside(positions: Tensor, places: int, size: int) -> InputError:
    """The error for positions that ``out`` does not have."""
    low, high = int(positions.min()), int(positions.max())
    return InputError(f"rows go to positions {low} to {high}, but out holds only {places} rows of {size} bytes")


def uniform(x: Tensor, stream: int, ids: Tensor, columns: Tensor | None) -> Tensor:
    """A random number for every packed value: float32, a multiple of 2^-24 in ``[0, 1)``."""
    drawn = uniform_bits(keys_of(stream, ids), x.shape[1])
    drawn = drawn if columns is None else drawn.index_select(1, columns)
    return (drawn >> 8).float() * 2.0**-24


def minmax(x: Tensor, bits: int, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``lo``, ``hi`` and ``q`` of ``minmax``: two bf16 patterns, int32 ``[n]``, and the codes, int32 ``[n, k]``."""
    # Ordered as integers, -0 comes before 0 and NaN beyond infinity, whatever the order of comparisons.
    order = ordered(x.view(torch.int32))
    low, high = ordered(order.amin(1)), ordered(order.amax(1))
    good = low.view(torch.float32).isfinite() & high.view(torch.float32).isfinite()
    lo = torch.where(good, outwards(low, low < 0), NOT_A_NUMBER)
    hi = torch.where(good, outwards(high, high >= 0), NOT_A_NUMBER)
    first, span = widened(lo), widened(hi) - widened(lo)
    most = float(2**bits - 1)
    scale = torch.full_like(span, most) / span
    usable = (span > 0) & span.isfinite() & scale.isfinite()
    scale = torch.where(usable, scale, 0.0)
    level = (x - first[:, None]) * scale[:, None] + u
    level = torch.where(level > 0, level, 0.0).clamp(max=most)
    return lo, torch.where(usable, hi, lo), level.int()


def two_levels(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``lo``, ``hi`` and ``q`` of 1-bit ``levels``: the means of the values on either side of the row's mean."""
    mean, low, high, above, bad = safe_means(x)
    lo, hi, middle = (nearest_finite(value) for value in (low, high, mean))
    wide = ~(widened(hi) - widened(lo)).isfinite()
    middle = torch.where(bad, NOT_A_NUMBER, middle)
    lo, hi = (torch.where(bad | wide, middle, pattern) for pattern in (lo, hi))
    return lo, hi, (above & ~(bad | wide)[:, None]).int()


def clipped_levels(x: Tensor, bits: int, u: Tensor | float = 0.5) -> tuple[Tensor, Tensor, Tensor]:
    """``lo``, ``hi`` and ``q`` of ``2^bits`` equally spaced levels around the middle of the two means.

    Values beyond the outer levels are clipped. The levels never reach beyond the values of the row, whose range is
    short where the values are few.
    """
    mean, low, high, _, bad = safe_means(x)
    middle, reach = low * 0.5 + high * 0.5, (high * 0.5 - low * 0.5) * REACH[bits]
    order = ordered(x.view(torch.int32))
    least, largest = (ordered(key).view(torch.float32) for key in (order.amin(1), order.amax(1)))
    below, above = middle - reach, middle + reach
    lo = nearest_finite(torch.where(below > least, below, least))
    hi = nearest_finite(torch.where(above < largest, above, largest))
    span, most = widened(hi) - widened(lo), float(2**bits - 1)
    scale = torch.full_like(span, most) / span
    usable = (span > 0) & span.isfinite() & scale.isfinite() & ~bad
    same = torch.where(bad, NOT_A_NUMBER, nearest_finite(mean))
    lo, hi = (torch.where(usable, pattern, same) for pattern in (lo, hi))
    level = (x - widened(lo)[:, None]) * scale[:, None] + u
    level = torch.where(level > 0, level, 0.0).clamp(max=most)
    return lo, hi, torch.where(usable[:, None], level, 0.0).int()


def safe_means(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`side_means`, scaled down where the sums of huge rows overflow, and bool ``[n]``: rows without means."""
    mean, low, high, above = side_means(x)
    huge = ~(mean.isfinite() & low.isfinite() & high.isfinite())
    if x.device.type != "cpu":  # all rows are scaled there: to know whether one needs it, the host would wait
        again = side_means(x * SCALE)
        mean, low, high = (torch.where(huge, b, a) for a, b in zip((mean, low, high), again[:3], strict=True))
        above = torch.where(huge[:, None], again[3], above)
    elif bool(huge.any()):
        for whole, part in zip((mean, low, high, above), side_means(x[huge] * SCALE), strict=True):
            whole[huge] = part
    bad = ~(mean.isfinite() & low.isfinite() & high.isfinite())
    back = torch.where(huge, 1 / SCALE, 1.0)
    return mean * back, low * back, high * back, above, bad


def side_means(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three means of every row, float32 ``[n]``: of all values, of the values up to that mean, of the values above it.

    The fourth result, bool ``[n, k]``, says which values are above the mean.
    """
    mean = ordered_sum(x) / torch.full_like(x[:, 0], x.shape[1])
    above = x > mean[:, None]
    count = above.sum(1)
    low = ordered_sum(torch.where(above, 0.0, x)) / (x.shape[1] - count)
    high = ordered_sum(torch.where(above, x, 0.0)) / count
    low, high = torch.where(count < x.shape[1], low, high), torch.where(count > 0, high, low)
    return mean, low, high, above


def ordered_sum(x: Tensor) -> Tensor:
    """Sum of every row in the one order that all implementations share: 16 partial sums, then a tree."""
    parts = F.pad(x, (0, -x.shape[1] % PARTIALS)).view(x.shape[0], -(-x.shape[1] // PARTIALS), PARTIALS)
    total = torch.zeros_like(parts[:, 0])
    for step in parts.unbind(1):
        total = total + step
    while total.shape[1] > 1:
        low, high = total.chunk(2, 1)
        total = low + high
    return total[:, 0]


def ordered(pattern: Tensor) -> Tensor:
    """Turn float32 patterns into int32 that are ordered as the values are, and back."""
    return pattern ^ ((pattern >> 31) & 0x7FFFFFFF)


def outwards(pattern: Tensor, away: Tensor) -> Tensor:
    """Round finite float32 patterns to bf16: away from zero where ``away``, else towards it; never infinite."""
    size = pattern & 0x7FFFFFFF
    inexact = (size & 0xFFFF) != 0
    return ((size >> 16) + (inexact & away).int()).clamp(max=LARGEST) | ((pattern < 0).int() << 15)


def nearest(x: Tensor) -> Tensor:
    """Round float32 values to the nearest bf16, ties to even; returns the patterns as int32."""
    pattern = x.contiguous().view(torch.int32).long() & 0xFFFFFFFF
    rounded = (pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16
    return torch.where(x.isnan(), NOT_A_NUMBER, rounded).int()


def nearest_finite(x: Tensor) -> Tensor:
    """Like :func:`nearest`, but what would round to infinity becomes the largest bf16."""
    pattern = nearest(x)
    return (pattern & 0x7FFF).clamp(max=LARGEST) | (pattern & 0x8000)


def widened(pattern: Tensor) -> Tensor:
    """The float32 values of bf16 patterns."""
    return (pattern.int() << 16).view(torch.float32)


def low_bytes(pattern: Tensor, count: int) -> Tensor:
    """The ``count`` lowest bytes of integers, little endian, uint8 ``[..., count]``."""
    shifts = torch.arange(count, device=pattern.device, dtype=pattern.dtype) * 8
    return ((pattern[..., None] >> shifts) & 0xFF).to(torch.uint8)


def payload(q: Tensor, bits: int) -> Tensor:
    """Pack codes ``[n, k]`` to bytes, uint8 ``[n, ceil(bits k / 8)]``, the first code in the lowest bits."""
    each = 8 // bits
    groups = F.pad(q, (0, -q.shape[1] % each)).view(q.shape[0], -(-q.shape[1] // each), each)
    places = torch.arange(each, device=q.device, dtype=q.dtype) * bits
    return (groups << places).sum(2).to(torch.uint8)


def unpack_rows(data: Tensor, bits: int, k: int) -> Tensor:
    """Decode packed rows, uint8 ``[m, bytes of a row]``, to float32 ``[m, k]``."""
    if bits == 16:
        return halves(data).view(data.shape[0], k)
    ends, body = halves(data[:, :4]), data[:, 4:].int()
    lo, hi = ends[:, :1], ends[:, 1:]
    shifts = torch.arange(8 // bits, device=data.device, dtype=torch.int32) * bits
    q = ((body[:, :, None] >> shifts) & (2**bits - 1)).flatten(1)[:, :k]
    if bits == 1:
        return torch.where(q == 1, hi, lo)
    step: Tensor = (hi - lo) * torch.tensor(1.0 / (2**bits - 1), dtype=torch.float32)
    value: Tensor = lo + q.float() * step
    return value


def halves(data: Tensor) -> Tensor:
    """Decode little-endian bf16, uint8 ``[m, 2 n]``, to float32 ``[m, n]``."""
    pairs = data.int().reshape(data.shape[0], data.shape[1] // 2, 2)
    return widened(pairs[:, :, 0] | (pairs[:, :, 1] << 8))
