# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases through `weft.compile` and `run`: every answer is right. All cases run on the reference,
without passes and after the passes for this processor, and on the CPU.

A case for which the CPU target uses host steps must be listed in onnx_host.txt; only strings, sequences and optionals
may need them."""
import pathlib
import sys

import pytest
from suite_cases import faults, judge, kept_chances, node_cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from places import keep_count

CASES = 1884  # of onnx 1.23.2
HALF_WAY = ("test_dynamicquantizelinear", "test_dynamicquantizelinear_expanded")


@pytest.fixture(scope="module")
def cases():
    found = node_cases()
    assert len(found) == CASES and sum(kept_chances(case) is not None for case in found) == 10
    return found


@pytest.fixture(scope="module")
def on_cpu(cases):
    return {case.name: judge(case, "cpu") for case in cases}


def counted(device, verdicts):
    """Returns the faults. Records the number of right cases for docs/status."""
    found = faults(verdicts)
    refused = sum(verdict.startswith("refused") for verdict in found.values())
    keep_count("ONNX node cases", {"through": "`weft.compile` and `run`", "device": device}, right=CASES - len(found),
               wrong=len(found) - refused, refused=refused)
    return found


def test_the_reference_is_right(cases):
    assert not counted("ref", {case.name: judge(case, "ref") for case in cases})


def test_the_reference_is_right_after_the_passes(cases):
    """One number may differ in the cases HALF_WAY. After the passes the scale is not rounded to f32, and with the exact
    scale the number is half-way between two bytes."""
    found = faults({case.name: judge(case, "ref:cpu") for case in cases})
    assert {name: verdict for name, verdict in found.items() if name not in HALF_WAY} == {}
    assert all("is 25.0 where 26.0 is right" in verdict for verdict in found.values())


def test_the_cpu_is_right(on_cpu):
    assert not counted("cpu", on_cpu)


def test_only_listed_cases_run_on_the_host(on_cpu):
    lines = (pathlib.Path(__file__).parent / "onnx_host.txt").read_text().splitlines()
    known = {line for line in lines if not line.startswith("#")}
    assert {name for name, verdict in on_cpu.items() if verdict.startswith("right ")} <= known
