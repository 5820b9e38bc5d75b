# SPDX-License-Identifier: Apache-2.0
"""Torch's own samples of every operator: Weft's answer is right, or Weft refuses. opinfo.py counts over all samples."""

import collections
import sys
import warnings
from pathlib import Path

import opinfo
import pytest
import torch
import weft.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robustness"))
from limits import IS_FULL, SEED

PARTS = 16 if IS_FULL else 8


#: One of these types is tested beside f32, in turns.
OTHERS = [torch.int64, torch.bool, torch.int32, torch.float64]


def chosen(op, kind):
    """Returns the first three samples of an entry; in a plain run one of them, which changes every second day."""
    found = list(opinfo.samples(op, kind, 3))
    return found if IS_FULL or not found else [found[SEED // 2 % len(found)]]


@pytest.mark.long
@pytest.mark.rotates(2)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["f32", "other"])
def test_samples_are_right_or_refused(part, kind):
    """Samples are right or refused on the reference, which runs the program as the frontend wrote it."""
    print(f"WEFT_TEST_SEED={SEED}")
    wrong, counts = [], collections.Counter()
    dtype = torch.float32 if kind == "f32" else OTHERS[(SEED // 2 + part) % len(OTHERS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in opinfo.entries(())[part::PARTS]:
            for sample in chosen(op, dtype):
                outcome, why = opinfo.judge(sample, op, "ref")
                counts[outcome] += 1
                if outcome == "wrong":
                    wrong.append(f"{op.name} {op.variant_test_name}: {why}")
    print(dict(counts))
    assert wrong == []
    assert counts["right"] > (30 if kind == "f32" else 15), counts


def test_a_kernel_rounds_sums_of_16_bits_once():
    """Decomposed to core ATen, this loss converts f32 to f16 between sums that cancel: each answer is near the f64
    answer or equals torch's."""
    op = next(op for op in opinfo.op_db if op.name == "nn.functional.binary_cross_entropy_with_logits")
    found = {}
    for number, sample in enumerate(opinfo.samples(op, torch.float16, 0)):
        outcome, why = opinfo.judge(sample, op, "cpu", decomposed=True)
        found[number] = (outcome, "rounded inputs" in why)
    assert set(found.values()) == {("right", False)}, found


def test_comparisons_and_steps_read_rounded_values():
    class Model(torch.nn.Module):
        def forward(self, x, y):
            narrow = x.half()
            return narrow == y, torch.floor(narrow), narrow.float() - x

    x = torch.cat([torch.rand(1000), torch.arange(1.0, 9.0) - 1e-4])
    program = torch.export.export(Model(), (x, x.half()))
    for got, wanted in zip(weft.torch.from_torch(program, device="cpu")(x, x.half()), Model()(x, x.half()), strict=True):
        assert torch.equal(torch.as_tensor(got), wanted)
