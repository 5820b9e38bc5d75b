# SPDX-License-Identifier: Apache-2.0
"""The operator cases of tests/ops on emulated AMD GPUs, compared with ref. A plain run takes a third of the cases, a
different third each day, and runs each on one chip. With --release (WEFT_TEST_FULL) every chip runs all cases."""
import re

import pytest

import emulated
from places import DAY, IS_FULL

SHARE = 3 * len(emulated.CHIPS)


@pytest.mark.long
@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_operators(chip, tmp_path):
    part = [] if IS_FULL else ["--part", f"{(3 * emulated.CHIPS.index(chip) + DAY) % SHARE}/{SHARE}"]
    done, kernels = emulated.counted(chip, tmp_path, "weft-ops", "test", "--device", "amd:0", *part)
    wrong = set(re.findall(r"^wrong +(.*)$", done.stdout, re.M))
    assert not wrong, f"{sorted(wrong)[:20]}\n{done.stdout[-3000:]}{done.stderr[-2000:]}"
    right = int(re.search(r"(\d+) right", done.stdout).group(1))
    assert right > (850 if IS_FULL else 90), done.stdout[-300:]
    for kernel in kernels:
        assert kernel["spills"] == 0, f"{kernel['kernel']} spills {kernel['spills']} registers"
        assert kernel["flat"] == 0, f"{kernel['kernel']} has memory instructions that do not say which memory"
        assert kernel["private_bytes"] == 0, f"{kernel['kernel']} has private memory"
