# SPDX-License-Identifier: Apache-2.0
"""Whole models on emulated AMD GPUs, compared with ref: kernels, launches, copies, the captured graph. Streams run as
late as they may, so that a missing wait gives a wrong answer; memory starts as NaN; races and wild addresses end a run."""
import json
import os

import pytest

import emulated

DIGITS = [emulated.ROOT / "examples/digits/digits.onnx", "--input", emulated.ROOT / "examples/digits/ten.npy"]
TEXT = [emulated.ROOT / "examples/text/text.onnx", "--at", "batch=2", "--at", "seq=9"]
MODELS = {"digits": DIGITS, "digits in f16": [*DIGITS, "--precision", "f16"], "text": TEXT}

BUDGETS = emulated.ROOT / "tests/amdemu/budgets.json"
COUNTED = ["instructions", "lines", "bank_conflicts"]
HEADROOM = 1.25  # above what was measured when the budget was written


def check_budget(model, chip, kernels):
    """What a run costs, as far as that can be told without a chip. WEFT_UPDATE=1 writes the budgets anew."""
    budgets = json.loads(BUDGETS.read_text())
    measured = {name: emulated.total(kernels, name) for name in COUNTED}
    if os.environ.get("WEFT_UPDATE"):
        budgets.setdefault(model, {})[chip] = measured
        BUDGETS.write_text(json.dumps(budgets, indent=1) + "\n")
        return
    for name, budget in budgets[model][chip].items():
        most = budget * HEADROOM + 100
        assert measured[name] <= most, f"{name} rose from {budget} to {measured[name]}; WEFT_UPDATE=1 accepts that"


@pytest.mark.parametrize("chip", emulated.CHIPS)
@pytest.mark.parametrize("model", MODELS)
def test_model_equals_ref(model, chip, tmp_path):
    arguments = [*MODELS[model], "--device", "amd:0"]
    if "f16" in model:
        arguments += ["--norm", "1e-2"]
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert emulated.total(kernels, "waves") > 0
    assert emulated.total(kernels, "matrix") > 0 or "f16" not in model
    check_budget(model, chip, kernels)


def test_order_of_work_does_not_matter(tmp_path):
    """Work groups in turns of a few instructions, and work that runs when it is submitted."""
    for options in ({"resident": 4, "quantum": 50}, {"eager": 1}):
        done = emulated.run("gfx1100", "weft", "verify", *DIGITS, "--device", "amd:0", **options)
        assert done.returncode == 0, done.stdout + done.stderr


def test_two_chips_in_one_process():
    done = emulated.run("gfx1100,gfx942", "weft", "devices", "-v")
    assert "gfx1100" in done.stdout and "gfx942" in done.stdout, done.stdout + done.stderr
    done = emulated.run("gfx1100,gfx942", "weft", "verify", *DIGITS, "--device", "amd:1")
    assert done.returncode == 0, done.stdout + done.stderr
