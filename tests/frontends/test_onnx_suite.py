# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases on the reference and on the CPU: every answer is right, or refused for a reason that onnx_refused.txt
knows. The CPU takes all cases under WEFT_TEST_FULL, and otherwise some: those of control flow and of sizes that depend on data,
and one in twelve of the others.

A case that the CPU does with steps of the host must stand in onnx_host.txt: only texts, sequences and optionals may. WEFT_BIN names the folder of the built
programs; without it that of the release build is taken.
"""
import collections
import os
import pathlib
import re
import subprocess
import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("WEFT_BIN", ROOT / "build/release/bin"))
CASES_AT_ONCE = 200
LEAST_RIGHT = 1884  # of the cases of onnx 1.23.2
ALWAYS = ("test_if", "test_loop", "test_scan", "test_nonzero", "test_unique", "test_compress", "test_nonmaxsuppression", "test_range")
# Their answers are whatever numpy's generator drew: types and sizes can be compared, test_random.py looks at the numbers.
RANDOM = re.compile("test_bernoulli|test_training_dropout(?!_zero_ratio)")
# The expected values themselves carry the rounding noise of a Fourier transform in f32.
LEAST_ABSOLUTE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


def to_proto(value, kind):
    """A value as test data holds it; `kind` is the TypeProto of its port."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.from_list([np.asarray(item) for item in value], dtype=None) if value else onnx.SequenceProto()
    if which == "optional_type":
        inner = kind.optional_type.elem_type
        proto = onnx.OptionalProto()
        if value is None:
            return proto
        if inner.WhichOneof("value") == "sequence_type":
            proto.elem_type = onnx.OptionalProto.SEQUENCE
            proto.sequence_value.CopyFrom(to_proto(value, inner))
        else:
            proto.elem_type = onnx.OptionalProto.TENSOR
            proto.tensor_value.CopyFrom(to_proto(value, inner))
        return proto
    return value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value))


def write_case(case, folder):
    """The folder that weft-onnx_suite reads."""
    inputs, outputs = case.data_sets[0]
    folder.mkdir()
    if RANDOM.match(case.name):
        (folder / "random").touch()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    absolute = max(case.atol, LEAST_ABSOLUTE.get(case.name, 0))
    (folder / "tolerance").write_text(f"{case.rtol} {absolute}\n")
    graph = case.model.graph
    for kind, values, ports in ("input", inputs, graph.input), ("output", outputs, graph.output):
        for i, value in enumerate(values):
            (folder / f"{kind}_{i}.pb").write_bytes(to_proto(value, ports[i].type).SerializeToString())


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The folders of all cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        cases = collect_testcases(None)
    root = tmp_path_factory.mktemp("onnx")
    for case in cases:
        write_case(case, root / case.name)
    return [root / case.name for case in cases]


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


def is_right(what):
    """A case that is right; the names of its steps on the host may follow."""
    return what.split(" ")[0] == "right"


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
    assert sum(map(is_right, results.values())) >= LEAST_RIGHT


def known_on_cpu():
    lines = (pathlib.Path(__file__).parent / "onnx_cpu.txt").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if not line.startswith("#")]
    return [start for start, _ in rows]


def test_cpu_agrees_with_the_reference(results, cpu_results):
    """What is right on the reference is right on the CPU too, or stands in onnx_cpu.txt: a case by name that is wrong, or how a
    refusal starts."""
    known = known_on_cpu()
    differs = {name: what for name, what in cpu_results.items() if not is_right(what) and is_right(results[name])}
    assert not {name: what for name, what in differs.items()
                if name not in known and not what.startswith(tuple(f"refused: {start}" for start in known))}
    fixed = [name for name in known if is_right(cpu_results.get(name, ""))]
    assert not fixed, "these are right now: take them out of onnx_cpu.txt"


def test_the_host_does_what_it_may(cpu_results):
    lines = (pathlib.Path(__file__).parent / "onnx_host.txt").read_text().splitlines()
    known = {line for line in lines if not line.startswith("#")}
    assert {name for name, what in cpu_results.items() if what.startswith("right ")} <= known
