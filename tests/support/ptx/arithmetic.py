"""What the operations without memory compute, in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.ptx.lanes import SIGNED, UNSIGNED, Array, Lanes, type_of
from tests.support.ptx.program import Instruction, KernelError, members

COMPARE = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
PLAIN = {"add": np.add, "sub": np.subtract, "mul": np.multiply, **BITWISE}


def compute(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Execute an instruction that reads and writes registers only."""
    operation = OPERATIONS.get(one.parts[0])
    if operation is None:
        raise KernelError(f"the executor does not know {one}")
    with np.errstate(all="ignore"):
        operation(lanes, one, active)


def binary(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Two operands and one result of the same type."""
    a, b = (lanes.read(operand, one.kind) for operand in one.operands[1:3])
    lanes.write(one.operands[0], PLAIN[one.parts[0]](a, b), active)


def extreme(lanes: Lanes, one: Instruction, active: Array) -> None:
    """The smaller or larger operand; unless the operation says NaN, a number wins over what is not a number."""
    small, real = one.parts[0] == "min", one.kind[0] == "f" and "NaN" not in one.parts
    function = (np.fmin if small else np.fmax) if real else (np.minimum if small else np.maximum)
    a, b = (lanes.read(operand, one.kind) for operand in one.operands[1:3])
    lanes.write(one.operands[0], function(a, b), active)


def divide(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Division; of integers towards zero, which is only needed of positive ones."""
    a, b = (lanes.read(operand, one.kind) for operand in one.operands[1:3])
    lanes.write(one.operands[0], a / b if one.kind[0] == "f" else a // b, active)


def multiply(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Products, also ``mad``: the low half, the whole twice as wide, or the high half of 32 bits."""
    if one.kind[0] == "f":
        binary(lanes, one, active)
        return
    mode, bits = one.parts[1], int(one.kind[1:])
    a, b = (lanes.read(operand, one.kind) for operand in one.operands[1:3])
    result = one.kind
    if mode != "lo":
        wide = (SIGNED if one.kind[0] == "s" else UNSIGNED)[2 * bits]
        a, b = a.astype(wide), b.astype(wide)
        result = f"{one.kind[0]}{2 * bits}"
    product = a * b
    if mode == "hi":
        product, result = (product >> bits).astype(type_of(one.kind)), one.kind
    if one.parts[0] == "mad":
        product = product + lanes.read(one.operands[3], result)
    lanes.write(one.operands[0], product, active)


def fused(lanes: Lanes, one: Instruction, active: Array) -> None:
    """A product and a sum, rounded once: 64 bits of precision hold the product of two float32 exactly."""
    a, b, c = (lanes.read(operand, one.kind).astype(np.longdouble) for operand in one.operands[1:4])
    lanes.write(one.operands[0], (a * b + c).astype(type_of(one.kind)), active)


def unary(function: Callable[[Array], Array]) -> Callable[[Lanes, Instruction, Array], None]:
    """The operation that applies ``function`` to its only operand."""

    def operation(lanes: Lanes, one: Instruction, active: Array) -> None:
        lanes.write(one.operands[0], function(lanes.read(one.operands[1], one.kind)), active)

    return operation


def count_ones(value: Array) -> Array:
    """The number of bits that are set."""
    return np.bitwise_count(value).astype(np.uint32)


def power_of_two(value: Array) -> Array:
    """``2^x``, rounded to float32."""
    return np.exp2(value.astype(np.float64)).astype(np.float32)


def shift(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Shifts by any distance: beyond the width nothing is left, or the sign."""
    value, bits = lanes.read(one.operands[1], one.kind), int(one.kind[1:])
    distance = lanes.read(one.operands[2], "u32")
    near = np.minimum(distance, bits - 1).astype(value.dtype)
    if one.parts[0] == "shl":
        result = np.where(distance >= bits, 0, value << near)
    elif one.kind[0] == "s":
        result = value >> near
    else:
        result = np.where(distance >= bits, 0, value >> near)
    lanes.write(one.operands[0], result.astype(value.dtype), active)


def extract(lanes: Lanes, one: Instruction, active: Array) -> None:
    """A field of bits, with its sign where the type has one."""
    if one.kind[1:] != "32":
        raise KernelError(f"the executor does not know {one}")
    value = lanes.read(one.operands[1], "u32").astype(np.uint64)
    place, length = (lanes.read(operand, "u32").astype(np.uint64) & np.uint64(255) for operand in one.operands[2:4])
    mask = (np.uint64(1) << length) - np.uint64(1)
    value = (value >> place) & mask
    if one.kind[0] == "s":
        top = np.uint64(1) << (np.maximum(length, np.uint64(1)) - np.uint64(1))
        value = np.where((length > 0) & (value & top != 0), value | ~mask, value)
    lanes.write(one.operands[0], value.astype(np.uint32), active)


def permute(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Four bytes chosen from eight, or their signs."""
    a, b, choice = (lanes.read(operand, "u32").astype(np.uint64) for operand in one.operands[1:4])
    pool, result = a | (b << np.uint64(32)), np.zeros(lanes.count, np.uint64)
    for i in range(4):
        picked = (choice >> np.uint64(4 * i)) & np.uint64(15)
        byte = (pool >> ((picked & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
        sign = np.where(byte >= 128, 255, 0).astype(np.uint64)
        result |= np.where(picked >= 8, sign, byte) << np.uint64(8 * i)
    lanes.write(one.operands[0], result.astype(np.uint32), active)


def select(lanes: Lanes, one: Instruction, active: Array) -> None:
    """One of two operands, by a predicate."""
    a, b = (lanes.read(operand, one.kind) for operand in one.operands[1:3])
    lanes.write(one.operands[0], np.where(lanes.read(one.operands[3], "pred"), a, b), active)


def compare(lanes: Lanes, one: Instruction, active: Array) -> None:
    """A predicate; comparisons ending in ``u`` hold for what is not a number, all others do not."""
    name = one.parts[1]
    if len(one.operands) != 3 or name.removesuffix("u") not in COMPARE:
        raise KernelError(f"the executor does not know {one}")
    a, b = (lanes.read(operand, one.kind) for operand in one.operands[1:3])
    holds = COMPARE[name.removesuffix("u")](a, b)
    if one.kind[0] == "f":
        strange = np.isnan(a) | np.isnan(b)
        holds = holds | strange if name.endswith("u") else holds & ~strange
    lanes.write(one.operands[0], holds, active)


def convert(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Conversions; of a float to an integer towards zero, 0 for what is not a number, the ends for what is beyond."""
    target, source = one.parts[-2:]
    value = lanes.read(one.operands[1], source)
    if source[0] == "f" and target[0] != "f":
        if "rzi" not in one.parts:
            raise KernelError(f"the executor does not know {one}")
        limits = np.iinfo(type_of(target))
        value = np.clip(np.nan_to_num(value.astype(np.float64), nan=0.0), limits.min, limits.max)
    lanes.write(one.operands[0], value.astype(type_of(target)), active)


def move(lanes: Lanes, one: Instruction, active: Array) -> None:
    """A copy; also of a register to and from the pieces of a vector."""
    target, source = one.operands
    if target.startswith("{"):
        names = members(target)
        bits = int(one.kind[1:]) // len(names)
        for i, name in enumerate(names):
            lanes.write(name, (lanes.raw(source) >> np.uint64(i * bits)) & np.uint64(2**bits - 1), active)
    elif source.startswith("{"):
        names = members(source)
        bits, value = int(one.kind[1:]) // len(names), np.zeros(lanes.count, np.uint64)
        for i, name in enumerate(names):
            value |= (lanes.raw(name) & np.uint64(2**bits - 1)) << np.uint64(i * bits)
        lanes.write(target, value, active)
    else:
        lanes.write(target, lanes.read(source, one.kind), active)


OPERATIONS: dict[str, Callable[[Lanes, Instruction, Array], None]] = {
    "abs": unary(np.abs), "add": binary, "and": binary, "bfe": extract, "cvt": convert, "div": divide,
    "ex2": unary(power_of_two), "fma": fused, "mad": multiply, "max": extreme, "min": extreme, "mov": move,
    "mul": multiply, "neg": unary(np.negative), "not": unary(np.invert), "or": binary,
    "popc": unary(count_ones), "prmt": permute, "selp": select,
    "setp": compare, "shl": shift, "shr": shift, "sqrt": unary(np.sqrt), "sub": binary, "xor": binary,
}  # fmt: skip
