# SPDX-License-Identifier: Apache-2.0
"""The operator cases of tests/ops on emulated AMD GPUs, compared with ref. Every run takes each case on one chip, by
turns; with --release (WEFT_TEST_FULL) every chip runs all of them."""
import os
import re

import pytest

import emulated

FULL = bool(os.environ.get("WEFT_TEST_FULL"))
# Kernels that do not compile for a GPU yet.
KNOWN = {"reduce {fn=max, axes=[0, 2], keep=true} u8 [5,6,7]"}


@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_operators(chip):
    part = [] if FULL else ["--part", f"{emulated.CHIPS.index(chip)}/{len(emulated.CHIPS)}"]
    done = emulated.run(chip, "weft-ops", "test", "--device", "amd:0", *part)
    wrong = set(re.findall(r"^wrong +(.*)$", done.stdout, re.M)) - KNOWN
    assert not wrong, done.stdout[-8000:] + done.stderr[-2000:]
    right = int(re.search(r"(\d+) right", done.stdout).group(1))
    assert right > (850 if FULL else 280), done.stdout[-300:]
