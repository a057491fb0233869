"""Compiling a launch for a GPU that is not here, with the same specialisation as on that GPU."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.compiler import compile as compile_source
from triton.runtime.jit import JITFunction, create_function_from_signature

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx90a": GPUTarget("hip", "gfx90a", 64),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
FORBIDDEN = r"\bfma\.rn|\bdiv\.(?:full|approx)|\brcp\.approx|\.ftz|\b(?:add|sub|mul)\.f32"
"""In PTX whose results must be equal to the bit: fused, approximate, flushing, and what the assembler may fuse."""
FUSED_OF_DIVISION = 5
"""Fused operations in the sequence by which AMD's GPUs divide, which rounds its result correctly."""


@dataclass(frozen=True)
class Compiled:
    """A kernel for one target.

    Attributes:
        name: the kernel.
        target: one of `TARGETS`.
        text: PTX or AMD's assembly.
        shared: bytes of shared memory of a block.
        arguments: what the machine code takes: the arguments that are no constants.
        exact: whether the launch forbids fused operations.
    """

    name: str
    target: str
    text: str
    shared: int
    arguments: list[Any]
    exact: bool

    def forbidden(self) -> list[str]:
        """The instructions that may round differently from one machine to another."""
        if self.target.startswith("sm"):
            return re.findall(FORBIDDEN, self.text)
        fused = re.findall(r"\bv_(?:pk_)?(?:fma|fmac|mac|mad)_\w*f32\w*", self.text)
        divisions = len(re.findall(r"\bv_div_fixup_f32", self.text))
        return fused[FUSED_OF_DIVISION * divisions :]

    def registers(self) -> int:
        """Registers of a thread, from the assembler's report."""
        return self._report()[0]

    def spills(self) -> int:
        """Bytes or registers that did not fit and go to memory, from the assembler's report."""
        return self._report()[1]

    def _report(self) -> tuple[int, int]:
        return report_of_ptxas(self.text, self.exact) if self.target.startswith("sm") else report_of_amd(self.text)


def compiled(kernel: JITFunction, arguments: tuple[Any, ...], constants: dict[str, Any], target: str) -> Compiled:
    """What a launch of ``kernel`` with these arguments and constants would compile on ``target``."""
    given = {**constants, "debug": False, "instrumentation_mode": ""}
    backend = make_backend(TARGETS[target])
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    bound, specialisation, options = bind(*arguments, **given)
    parsed, signature, fixed, attributes = kernel._pack_args(backend, given, bound, specialisation, options)
    source = ASTSource(kernel, signature, fixed, attributes)
    made = compile_source(source, target=TARGETS[target], options=parsed.__dict__)
    passed = [value for value, kind in zip(bound.values(), signature.values(), strict=True) if kind != "constexpr"]
    text = made.asm["ptx" if target.startswith("sm") else "amdgcn"]
    return Compiled(kernel.__name__, target, text, made.metadata.shared, passed, not parsed.enable_fp_fusion)


def report_of_ptxas(text: str, exact: bool) -> tuple[int, int]:
    """Registers and spilled bytes that NVIDIA's assembler, which triton brings, reports for PTX."""
    architecture = re.search(r"\.target\s+(sm_\w+)", text)
    assert architecture is not None
    new = int(re.sub(r"\D", "", architecture[1])) >= 100
    tool = (knobs.nvidia.ptxas_blackwell if new else knobs.nvidia.ptxas).path
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.ptx")
        file.write_text(text)
        options = ["--fmad=false"] if exact else []
        command = [tool, "-v", *options, f"--gpu-name={architecture[1]}", str(file), "-o", f"{file}.o"]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    used = re.search(r"Used (\d+) registers", report)
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert used is not None and spilled is not None, report
    return int(used[1]), int(spilled[1]) + int(spilled[2])


def report_of_amd(text: str) -> tuple[int, int]:
    """Vector registers and spilled registers that AMD's assembler notes in its output."""
    noted = {name: int(value) for name, value in re.findall(r"\.(\w+_count):\s+(\d+)", text)}
    return noted["vgpr_count"], noted["vgpr_spill_count"] + noted["sgpr_spill_count"]
