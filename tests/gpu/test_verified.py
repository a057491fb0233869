"""Every kernel, compiled for GPUs that are not here: registers, instructions, and its PTX executed against the twin."""

from __future__ import annotations

import re

import pytest

from halowire.kernels.triton_devices import interpreted
from tests.support.gpu.cases import CLOSE, cases, difference, twin_of
from tests.support.gpu.launched import launches
from tests.support.gpu.table import Results
from tests.support.gpu.targets import TARGETS

pytestmark = [
    pytest.mark.gpu_kernels,
    pytest.mark.timeout(600),
    pytest.mark.skipif(interpreted(), reason="TRITON_INTERPRET=1 leaves nothing to compile"),
]
ATOMIC = r"\b(?:atom|red)\.|\b(?:global|buffer|flat)_atomic|\bds_(?:add|min|max|cmpst)"
CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_machine_code_fits_and_computes_what_the_twin_computes(case, results: Results):
    found = results.setdefault(case.name, {"exact": case.exact, "difference": {}})
    wanted = twin_of(case)
    made = []
    for target in TARGETS:
        executed = target if target in ("sm_80", "sm_90") else None
        with launches(target, run=executed) as here:
            got = case.call()
        made += here
        if executed:
            found["difference"][target] = difference(got, wanted, case.exact)
    found["registers"] = {target: [one.registers() for one in made if one.target == target] for target in TARGETS}
    found["spills"] = sum(one.spills() for one in made)
    found["forbidden"] = sum(len(one.forbidden()) for one in made)
    assert len({one.target for one in made}) == len(TARGETS)
    assert found["spills"] == 0
    assert not case.exact or found["forbidden"] == 0
    assert not any(re.search(ATOMIC, one.text) for one in made), "atomics add in any order"
    assert max(found["difference"][target] for target in ("sm_80", "sm_90")) <= (0 if case.exact else CLOSE)


@pytest.mark.parametrize("width", [1, 47, 602, 4096])
def test_other_widths_spill_nothing_either(width):
    for case in cases(width):
        if "heads" in case.name and width < 4:
            continue
        with launches("sm_80", "gfx90a") as made:
            case.call()
        assert [one.spills() for one in made] == [0] * len(made), case.name
        assert not case.exact or not any(one.forbidden() for one in made), case.name


@pytest.mark.parametrize("width", [47, 602])
@pytest.mark.parametrize(
    "name",
    [
        "pack 1-bit minmax",
        "pack 1-bit levels",
        "pack 4-bit levels",
        "unpack 4 bits",
        "sums of 2-bit rows",
        "LayerNorm, ReLU, dropout, there and back",
    ],
)
def test_machine_code_for_other_widths_computes_what_the_twin_computes(name, width):
    case = next(one for one in cases(width) if one.name == name)
    with launches("sm_80", run="sm_80"):
        found = case.call()
    assert difference(found, twin_of(case), case.exact) <= (0 if case.exact else CLOSE)
