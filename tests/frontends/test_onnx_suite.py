# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases on the reference and on the CPU: every answer is right, or refused for a reason that onnx_refused.txt
knows. The CPU takes all cases under WEFT_TEST_FULL, and otherwise some: those of control flow and of sizes that depend on data,
and one in twelve of the others.

Cases with inputs or outputs that are no tensors (sequences, optionals) are left out. WEFT_BIN names the folder of the built
programs; without it that of the release build is taken.
"""
import collections
import os
import pathlib
import subprocess
import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("WEFT_BIN", ROOT / "build/release/bin"))
CASES_AT_ONCE = 200
LEAST_RIGHT = 1798  # of the cases of onnx 1.23.2
ALWAYS = ("test_if", "test_loop", "test_scan", "test_nonzero", "test_unique", "test_compress", "test_nonmaxsuppression", "test_range")
# The expected values themselves carry the rounding noise of a Fourier transform in f32.
LEAST_ABSOLUTE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


def is_tensor(value):
    return isinstance(value, (np.ndarray, np.generic, onnx.TensorProto, int, float))


def write_tensor(path, value):
    tensor = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value))
    path.write_bytes(tensor.SerializeToString())


def write_case(case, folder):
    """The folder that weft-onnx_suite reads; false when the case is not about tensors alone."""
    inputs, outputs = case.data_sets[0]
    if not all(is_tensor(value) for value in [*inputs, *outputs]):
        return False
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    absolute = max(case.atol, LEAST_ABSOLUTE.get(case.name, 0))
    (folder / "tolerance").write_text(f"{case.rtol} {absolute}\n")
    for kind, values in ("input", inputs), ("output", outputs):
        for i, value in enumerate(values):
            write_tensor(folder / f"{kind}_{i}.pb", value)
    return True


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The folders of all cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        cases = collect_testcases(None)
    root = tmp_path_factory.mktemp("onnx")
    return [root / case.name for case in cases if write_case(case, root / case.name)]


def run_suite(device, folders):
    """Case name -> `right`, or what is wrong."""
    found = {}
    for first in range(0, len(folders), CASES_AT_ONCE):
        command = [BIN / "weft-onnx_suite", "--device", device, *folders[first:first + CASES_AT_ONCE]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"crashed after {done.stdout.splitlines()[-1:]}: {done.stderr[-2000:]}"
        found.update(line.split(" ", 1) for line in done.stdout.splitlines())
    return found


@pytest.fixture(scope="module")
def results(cases):
    return run_suite("ref", cases)


@pytest.fixture(scope="module")
def cpu_results(cases):
    some = [f for i, f in enumerate(cases) if i % 12 == 0 or f.name.startswith(ALWAYS)]
    return run_suite("cpu", cases if os.environ.get("WEFT_TEST_FULL") else some)


def known_refusals():
    lines = (pathlib.Path(__file__).parent / "onnx_refused.txt").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if not line.startswith("#")]
    return {start: int(count) for start, count, _ in rows}


def test_nothing_is_wrong(results):
    wrong = {name: what for name, what in results.items() if what.startswith("wrong")}
    assert not wrong


def test_refusals_are_known(results):
    known, counts, unknown = known_refusals(), collections.Counter(), {}
    for name, what in results.items():
        if not what.startswith("refused: "):
            continue
        start = next((start for start in known if what.removeprefix("refused: ").startswith(start)), None)
        if start:
            counts[start] += 1
        else:
            unknown[name] = what
    assert not unknown
    assert {start: n for start, n in counts.items() if n > known[start]} == {}


def test_enough_is_right(results):
    assert sum(what == "right" for what in results.values()) >= LEAST_RIGHT


def known_on_cpu():
    lines = (pathlib.Path(__file__).parent / "onnx_cpu.txt").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if not line.startswith("#")]
    return [start for start, _ in rows]


def test_cpu_agrees_with_the_reference(results, cpu_results):
    """What is right on the reference is right on the CPU too, or stands in onnx_cpu.txt: a case by name that is wrong, or how a
    refusal starts."""
    known = known_on_cpu()
    differs = {name: what for name, what in cpu_results.items() if what != "right" and results[name] == "right"}
    assert not {name: what for name, what in differs.items()
                if name not in known and not what.startswith(tuple(f"refused: {start}" for start in known))}
    fixed = [name for name in known if cpu_results.get(name) == "right"]
    assert not fixed, "these are right now: take them out of onnx_cpu.txt"
