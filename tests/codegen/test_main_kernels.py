# SPDX-License-Identifier: Apache-2.0
"""The kernels that take most time (main_kernels.py), for each chip. Registers, local memory and occupancy are within a
budget, and nothing is spilled. The inner loop has the matrix instruction, memory is read 16 bytes at a time, and every
access names its address space. A plain run takes half of the chips, each in f32 or f16; the choice changes each day.
--release (WEFT_TEST_FULL) takes all. WEFT_UPDATE=1 writes new budgets."""
import collections
import json
import os
import pathlib
import re

import pytest

import assembly
import main_kernels
import resources
from places import DAY, IS_FULL

BUDGETS = pathlib.Path(__file__).with_name("budgets.json")
HEADROOM = 1.1  # for registers and local memory; the number of waves may not fall

# Beginnings of the names of kernels that must use the matrix unit if it multiplies their types.
MATRIX_FAMILIES = ("dot_", "conv_", "attention_")
# Kernels that need not read 16 bytes at a time. Copies transpose in this model, so their elements are not adjacent in
# memory. Reductions load only as many elements as an f32 vector of sums has.
NARROW = ("copy_", "reduce_mean_")
IS_WHOLE = IS_FULL or bool(os.environ.get("WEFT_UPDATE"))
CASES = [(chip, precision) for i, chip in enumerate([*main_kernels.AMD, *main_kernels.NVIDIA])
         for j, precision in enumerate(("f32", "f16")) if IS_WHOLE or (i + 2 * j + DAY) % 4 == 0]


def family(name):
    return re.sub(r"_[0-9a-f]{6}$", "", name)


def has_matrix_unit(chip, name):
    """True if the chip has a matrix instruction for the product in the kernel `name` (src/kernels/matrix_core.h)."""
    type = name.split("_")[1]
    # A product of one row, whose epilogue is sigmoid here, is computed on vector units.
    if chip == "gfx1030" or not name.startswith(MATRIX_FAMILIES) or family(name).endswith("_sigmoid"):
        return False
    if type == "f32":
        return chip in ("gfx90a", "gfx942")
    return type in ("f16", "bf16")


def budget_of(chip, kernels):
    """Returns for each family the most registers, the most local memory and the fewest waves of its kernels."""
    found = collections.defaultdict(lambda: {"registers": 0, "lds": 0, "waves": 99})
    for kernel in kernels:
        most = found[family(kernel.name)]
        most["registers"] = max(most["registers"], kernel.vgprs)
        most["lds"] = max(most["lds"], kernel.lds)
        most["waves"] = min(most["waves"], resources.waves(chip, kernel))
    return dict(found)


def check_budget(chip, precision, kernels):
    budgets = json.loads(BUDGETS.read_text()) if BUDGETS.exists() else {}
    measured = budget_of(chip, kernels)
    if os.environ.get("WEFT_UPDATE"):
        budgets.setdefault(chip, {})[precision] = measured
        lines = [f' "{c}": {{\n' + ",\n".join(f'  "{p}": {{\n' + ",\n".join(f'   "{k}": {json.dumps(v)}' for k, v in sorted(of.items())) +
                 "\n  }" for p, of in sorted(by.items())) + "\n }" for c, by in sorted(budgets.items())]
        BUDGETS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    known = budgets[chip][precision]
    assert measured.keys() == known.keys(), "other kernels than the budgets are for; WEFT_UPDATE=1 accepts that"
    for name, need in measured.items():
        budget = known[name]
        fits = need["registers"] <= budget["registers"] * HEADROOM and need["lds"] <= budget["lds"] * HEADROOM
        assert fits and need["waves"] >= budget["waves"], f"{name} needs {need}, budget {budget}; WEFT_UPDATE=1 accepts that"


def check_lines(chip, name, lines):
    """Checks the instructions of one kernel."""
    counts = assembly.counts(lines, chip)
    assert counts["flat"] == 0, f"{name} has memory instructions that do not say which memory they mean"
    assert counts["scratch"] == 0, f"{name} uses private memory"
    if has_matrix_unit(chip, name):
        # With a constant k of one step, as in a convolution here, the products are in no loop.
        assert counts["matrix"] > 0, f"{name} has no matrix instruction"
    assert counts["wide_load"] > 0 or name.startswith(NARROW), f"{name} never reads 16 bytes at a time: {dict(counts)}"


@pytest.mark.parametrize("chip,precision", CASES)
def test_main_kernels(chip, precision, tmp_path):
    kernels, texts = main_kernels.compiled(chip, precision, tmp_path)
    assert len(texts) >= 12
    if kernels:
        assert {kernel.name for kernel in kernels} == set(texts)
        for kernel in kernels:
            assert (kernel.vgpr_spills, kernel.scratch) == (0, 0), kernel
        check_budget(chip, precision, kernels)
    for name, lines in texts.items():
        check_lines(chip, name, lines)
