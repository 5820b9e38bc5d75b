# SPDX-License-Identifier: Apache-2.0
"""Torch's own samples of every operator: what Weft takes is right. The counts over all samples: opinfo.py."""

import collections
import warnings

import opinfo
import pytest
import torch

PARTS = 16


@pytest.mark.parametrize("part", range(PARTS))
def test_samples_are_right_or_refused(part):
    """Three samples of each entry on the reference, which runs the program as the frontend wrote it."""
    wrong, counts = [], collections.Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in opinfo.entries(())[part::PARTS]:
            for sample in opinfo.samples(op, torch.float32, 3):
                outcome, why = opinfo.judge(sample, op, "ref")
                counts[outcome] += 1
                if outcome == "wrong":
                    wrong.append(f"{op.name} {op.variant_test_name}: {why}")
    print(dict(counts))
    assert wrong == []
    assert counts["right"] > 30, counts
