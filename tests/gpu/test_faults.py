"""Every check of the verification finds the fault that it is for."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from triton.runtime.jit import JITFunction

from halowire.kernels import Packing, delta_step, pack_rows, unpack_rows
from halowire.kernels.triton_devices import interpreted
from tests.support.gpu.cases import STREAM, cases, difference, twin_of
from tests.support.gpu.launched import launches
from tests.support.gpu.targets import compiled
from tests.support.ptx.machine import execute
from tests.support.ptx.program import KernelError, read_program

pytestmark = [
    pytest.mark.gpu_kernels,
    pytest.mark.timeout(300),
    pytest.mark.skipif(interpreted(), reason="TRITON_INTERPRET=1 leaves nothing to compile"),
]


def case(name: str):
    return next(one for one in cases(64) if one.name == name)


def pack_some(x: torch.Tensor, out: torch.Tensor) -> None:
    pack_rows(x, Packing(1), STREAM, torch.arange(len(x)), out)


def test_a_tensor_that_is_too_short():
    data, out = torch.zeros(10, 12, dtype=torch.uint8), torch.zeros(10, 64)
    with launches("sm_80") as made:
        unpack_rows(data, Packing(1), 64, out)
    arguments = made[0].arguments
    for short in (0, 1):
        given = [value[:-1] if i == short else value for i, value in enumerate(arguments)]
        with pytest.raises(KernelError, match="OUT OF BOUNDS"):
            execute(read_program(made[0].text), (1,), given, made[0].shared)


def test_a_write_into_the_gap_between_rows():
    with launches("sm_80") as made:
        unpack_rows(torch.zeros(4, 12, dtype=torch.uint8), Packing(1), 64, torch.zeros(4, 64))
    wide = torch.zeros(4, 64)[:, :60]
    given = [wide if value.shape == (4, 64) else value for value in made[0].arguments[:2]] + made[0].arguments[2:]
    with pytest.raises(KernelError, match="OUT OF BOUNDS"):
        execute(read_program(made[0].text), (1,), given, made[0].shared)


def test_addresses_that_are_not_aligned():
    one = torch.zeros(4 * 64 + 1)
    with launches("sm_80") as made:
        delta_step(one[:-1].view(4, 64), torch.zeros(4, 64), 0.5, 0.5)
    given = [one[1:].view(4, 64), *made[0].arguments[1:]]
    with pytest.raises(KernelError, match="MISALIGNED"):
        execute(read_program(made[0].text), (1,), given, made[0].shared)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_barriers_taken_out(target):
    def without(text: str) -> str:
        assert "bar.sync" in text
        return re.sub(r"\n\s*bar\.sync[^\n]*", "", text)

    with launches(target, run=target, change=without), pytest.raises(KernelError, match="RACE"):
        case("LayerNorm, ReLU, dropout, there and back").call()


def test_blocks_that_write_the_same_rows():
    def same(text: str) -> str:
        return re.sub(r"%ctaid\.x", "0", text)

    x, out = torch.randn(40, 64), torch.zeros(40, 12, dtype=torch.uint8)
    with launches("sm_80", run="sm_80", change=same), pytest.raises(KernelError, match="RACE, a block writes"):
        pack_some(x, out)


def test_threads_that_part_at_a_barrier():
    text = """
.entry one(.param .u64 one_param_0)
.reqntid 64
{
\tmov.u32 %r1, %tid.x;
\tsetp.lt.s32 %p1, %r1, 40;
\t@%p1 bra $L1;
\tbar.sync 0;
$L1:
\tret;
}
"""
    with pytest.raises(KernelError, match="only some threads of a block reach bar"):
        execute(read_program(text), (1,), [0], 0)
    whole = text.replace("bar.sync 0", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1")
    with pytest.raises(KernelError, match="only some threads of a warp reach shfl"):
        execute(read_program(whole), (1,), [0], 0)


def test_an_operation_that_is_not_known():
    text = ".entry one(.param .u64 one_param_0)\n.reqntid 32\n{\n\tatom.global.add.f32 %f1, [%rd1], %f2;\n\tret;\n}\n"
    with pytest.raises(KernelError, match=r"does not know atom\.global"):
        execute(read_program(text), (1,), [0], 0)


def test_a_wrong_constant_changes_the_bytes():
    def other(text: str) -> str:
        assert "2146121005" in text  # a factor of the random bits
        return text.replace("2146121005", "2146121007")

    one = case("pack 1-bit minmax")
    with launches("sm_80", run="sm_80", change=other):
        found = one.call()
    assert difference(found, twin_of(one), exact=True) > 0


def last_launch(name: str) -> tuple:
    """The kernel that a case launches last, with its arguments and constants."""
    given: list[tuple] = []

    def keep(kernel, *arguments, grid, warmup, **constants):
        given.append((kernel, arguments, constants))

    with launches(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITFunction, "run", keep)
        case(name).call()
    return given[-1]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120", "gfx90a", "gfx942"])
def test_fused_operations(target):
    kernel, arguments, constants = last_launch("delta update")
    assert compiled(kernel, arguments, constants, target).forbidden() == []
    assert compiled(kernel, arguments, {**constants, "enable_fp_fusion": True}, target).forbidden() != []


def test_registers_that_do_not_fit():
    kernel, arguments, constants = last_launch("LayerNorm, ReLU, dropout, there and back")
    assert compiled(kernel, arguments, constants, "sm_80").spills() == 0
    assert compiled(kernel, arguments, {**constants, "maxnreg": 24}, "sm_80").spills() > 0


def test_nan_and_the_ends_of_integers_convert_as_a_gpu_converts_them():
    text = """
.entry one(.param .u64 one_param_0)
.reqntid 32
{
\tld.param.b64 %rd1, [one_param_0];
\tmov.u32 %r1, %tid.x;
\tmad.wide.s32 %rd2, %r1, 4, %rd1;
\tld.global.b32 %r2, [%rd2];
\tcvt.rzi.s32.f32 %r3, %r2;
\tst.global.b32 [%rd2], %r3;
\tret;
}
"""
    values = torch.zeros(32)
    values[:4] = torch.tensor([torch.nan, 1e20, -1e20, -2.9])
    execute(read_program(text), (1,), [values], 0)
    assert np.array_equal(values.view(torch.int32)[:4].numpy(), [0, 2**31 - 1, -(2**31), -2])
