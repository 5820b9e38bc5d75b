# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases on the reference target: every answer is right, or refused for a reason that onnx_refused.txt knows.

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
LEAST_RIGHT = 1755  # of the cases of onnx 1.23.2
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
def results(tmp_path_factory):
    """Case name -> `right`, or what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        cases = collect_testcases(None)
    root = tmp_path_factory.mktemp("onnx")
    folders = [root / case.name for case in cases if write_case(case, root / case.name)]
    found = {}
    for first in range(0, len(folders), CASES_AT_ONCE):
        command = [BIN / "weft-onnx_suite", *folders[first:first + CASES_AT_ONCE]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"crashed after {done.stdout.splitlines()[-1:]}: {done.stderr[-2000:]}"
        found.update(line.split(" ", 1) for line in done.stdout.splitlines())
    return found


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
