# SPDX-License-Identifier: Apache-2.0
"""Damaged models end in an error or an answer: no crash, no sanitizer report, nothing slow, nothing large.

The models are random graphs and small node cases of ONNX. WEFT_BUILD chooses the build: CI runs an instrumented one.
"""
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "robustness"), str(TESTS / "random_graphs")]

from graphs import draw_graph, open_sizes  # noqa: E402
from limits import BUILD, FULL, SEED  # noqa: E402

COUNT = 20_000 if FULL else 2_000
AT_ONCE = 500


def node_cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        return [case.model.SerializeToString() for case in collect_testcases(None)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Paths of small models: four of five are node cases."""
    folder = tmp_path_factory.mktemp("models")
    small = [model for model in node_cases() if len(model) < 4000]
    chosen = random.Random(SEED).sample(small, 160)
    for seed in range(SEED * 1000, SEED * 1000 + 40):
        d = draw_graph(seed)
        chosen.append(d.model(open_sizes(d)).SerializeToString())
    for number, model in enumerate(chosen):
        (folder / f"{number}.onnx").write_bytes(model)
    return sorted(folder.iterdir())


def run_mutants(models, first, count):
    """What went wrong with mutants [first, first + count)."""
    command = [BUILD / "bin/weft-mutants", SEED, first, count, *models]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=3600)
    lines = done.stdout.splitlines()
    wrong, number = [], first
    for line in lines:
        number = int(line) if line.isdigit() else number
        if line.startswith("BUG"):
            wrong.append(f"mutant {number}: {line}")
    if done.returncode:
        wrong.append(f"mutant {number}: exit code {done.returncode}: {done.stderr[-1500:]}")
        rest = first + count - number - 1
        if rest > 0 and len(wrong) < 20:
            wrong += run_mutants(models, number + 1, rest)
    return wrong


@pytest.mark.parametrize("first", range(0, COUNT, AT_ONCE))
def test_mutants(models, first):
    print(f"seed {SEED} (WEFT_TEST_SEED)")
    assert run_mutants(models, first, AT_ONCE) == []
