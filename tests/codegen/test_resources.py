# SPDX-License-Identifier: Apache-2.0
"""Kernels as lowering makes them, compiled for AMD chips that tests/amdemu does not run: every one builds, spills nothing
and keeps nothing in private memory. A part of the operator cases in each run, all with --release (WEFT_TEST_FULL)."""
import os

import pytest

import resources

FULL = bool(os.environ.get("WEFT_TEST_FULL"))
CHIPS = ["gfx90a", "gfx1030", "gfx1151", "gfx1200"]
SHARE = 12  # of the cases, in a plain run
FEWEST_WAVES = 2  # of a SIMD: fewer cannot hide a load


@pytest.mark.parametrize("chip", CHIPS)
def test_kernels_fit(chip):
    part = [] if FULL else ["--part", f"{3 * CHIPS.index(chip)}/{SHARE}"]
    command = [resources.BUILD / "bin/weft-ops", "support", "--device", f"amd:{chip}", *part]
    done, kernels, _ = resources.compile_cold(command)
    assert "does not compile" not in done.stdout, done.stdout[-4000:]
    assert len(kernels) > (300 if FULL else 20)
    for kernel in kernels:
        assert (kernel.vgpr_spills, kernel.scratch) == (0, 0), kernel
        assert resources.waves(chip, kernel) >= FEWEST_WAVES, kernel
        assert kernel.wave == (64 if chip == "gfx90a" else 32), kernel
