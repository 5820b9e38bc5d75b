# SPDX-License-Identifier: Apache-2.0
"""Kernels that lowering makes, compiled for AMD chips that tests/amdemu does not run: each kernel compiles, spills no
registers and uses no private memory. A plain run compiles a part of the operator cases for one chip of each kind; the
part changes each day. With --release (WEFT_TEST_FULL) it compiles all cases for those chips, and a part for every other
chip of `amd:all`."""

import pytest

import resources
from places import DAY, IS_FULL

CHIPS = ["gfx90a", "gfx1030", "gfx1151", "gfx1200", "gfx908"]
ALIKE = ["gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1152"]
SHARE = 12 if IS_FULL else 24  # a partial run takes one of this many parts of the cases
FEWEST_WAVES = 2  # per SIMD: a single wave cannot hide the latency of a load


@pytest.mark.parametrize("chip", [*CHIPS, *ALIKE] if IS_FULL else CHIPS)
def test_kernels_fit(chip):
    is_whole = IS_FULL and chip in CHIPS
    part = [] if is_whole else ["--part", f"{(5 * [*CHIPS, *ALIKE].index(chip) + DAY) % SHARE}/{SHARE}"]
    command = [resources.BUILD / "bin/weft-ops", "support", "--device", f"amd:{chip}", *part]
    done, kernels, _ = resources.compile_cold(command)
    assert "does not compile" not in done.stdout, done.stdout[-4000:]
    assert len(kernels) > (300 if is_whole else 20)
    for kernel in kernels:
        assert (kernel.vgpr_spills, kernel.scratch) == (0, 0), kernel
        assert resources.waves(chip, kernel) >= FEWEST_WAVES, kernel
        assert kernel.wave == (64 if chip.startswith("gfx9") else 32), kernel
