#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases in bf16 and f16, on the CPU and on emulated AMD GPUs: no answer is wrong. weft-precision
compares answers with ref; the tolerance is the effect that rounding has on each case. On a GPU a case may be refused. A
plain run takes a part of the cases that changes from day to day (WEFT_TEST_SEED), WEFT_TEST_FULL all of them.

    test_onnx_precision.py --device gpu [--precision f16] [--jobs 8]    all cases on a device of this machine, as a program
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "robustness"))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from limits import BUILD, IS_FULL, SEED
from onnx_node_cases import node_cases
from places import keep_count

SECONDS = 300  # for one case
PRECISIONS = ("bf16", "f16")
# Emulated chip ("": the CPU) -> (a short test runs one case in this many; the minimum number of right cases in a test
# of all cases).
PLACES = {"": (30, 1884), "gfx1100": (96, 1500), "gfx942": (96, 1500)}
UNIT = {"bf16": 2**-8, "f16": 2**-11}
MOST_UNKNOWN = 0.03  # at most this many unknown results (rounding changes them too much to check) per known one


def to_proto(value, kind):
    """Returns a value in the protobuf form of test data; `kind` is the TypeProto of its port."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.from_list([np.asarray(item) for item in value], dtype=None) if value else onnx.SequenceProto()
    if which != "optional_type":
        return value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value))
    inner, proto = kind.optional_type.elem_type, onnx.OptionalProto()
    if value is None:
        return proto
    is_sequence = inner.WhichOneof("value") == "sequence_type"
    proto.elem_type = onnx.OptionalProto.SEQUENCE if is_sequence else onnx.OptionalProto.TENSOR
    (proto.sequence_value if is_sequence else proto.tensor_value).CopyFrom(to_proto(value, inner))
    return proto


def write_case(case, folder):
    """Writes a case into a new folder for weft-precision."""
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    if case.name.startswith(("test_bernoulli", "test_training_dropout")) and "zero_ratio" not in case.name:
        (folder / "random").touch()
    for i, (value, port) in enumerate(zip(case.data_sets[0][0], case.model.graph.input)):
        (folder / f"input_{i}.pb").write_bytes(to_proto(value, port.type).SerializeToString())


def write_cases(root):
    """Writes all cases; returns their folders."""
    cases = node_cases()
    for case in cases:
        write_case(case, root / case.name)
    return [root / case.name for case in cases]


def environment_of(chip):
    emulated = {"WEFT_HIP_LIBRARY": str(BUILD / "lib/libamdemu.so"), "AMDEMU_CHIPS": chip}
    return os.environ | (emulated if chip else {})


def answers(device, precision, folders, chip):
    """Returns weft-precision's verdict on each case, {name: words}; a case that crashes it counts as wrong."""
    found, left = {}, list(folders)
    while left:
        command = [BUILD / "bin/weft-precision", "--device", device, "--precision", precision, *left[:100]]
        done = subprocess.run(command, capture_output=True, text=True, env=environment_of(chip), timeout=100 * SECONDS)
        lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
        found.update(lines)
        del left[: len(lines)]
        if done.returncode:
            found[left.pop(0).name] = f"wrong: weft-precision ended with {done.returncode}: {done.stderr[-500:]}"
    return found


def judged(device, precision, folders, chip="", jobs=None):
    """Runs weft-precision on the cases in several processes; returns the verdict on each case."""
    jobs = jobs or len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        parts = [folders[k::jobs] for k in range(jobs)]
        done = list(pool.map(lambda part: answers(device, precision, part, chip), parts))
    return {name: words for part in done for name, words in part.items()}


def sums(found, place="", precision="", out=None):
    """Counts the cases by verdict, and the results that are checked (known) and not checked (unknown). Records the
    counts if `place` or `out` is given."""
    total = collections.Counter(words.split()[0].strip(":") for words in found.values())
    for words in found.values():
        if words.startswith("right"):
            _, known, _, unknown, *_ = words.split()
            total.update(known=int(known), unknown=int(unknown))
    if place:
        print(f"{place} {precision}: {dict(total)} (WEFT_TEST_SEED={SEED})", flush=True)
        keep_count("ONNX node cases in 16 bits", {"place": place, "precision": precision}, cases=len(found), **total)
    if out:
        import machine

        of, values = {"place": place, "precision": precision}, {"cases": len(found), "wrong": 0} | total
        machine.keep(machine.result("ONNX node cases in 16 bits", of, values, machine=machine.of_device(place)), out)
    return total


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield write_cases(tmp_path_factory.mktemp("onnx"))


@pytest.mark.long
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("chip", PLACES)
def test_no_answer_is_wrong(folders, chip, precision):
    every, least = PLACES[chip]
    some = folders if IS_FULL else folders[SEED % every :: every]
    found = judged("amd:0" if chip else "cpu", precision, some, chip)
    total = sums(found, chip or "cpu", precision)
    assert not {name: words for name, words in found.items() if words.startswith("wrong")}
    assert chip or not {name: words for name, words in found.items() if words.startswith("refused")}
    assert total["unknown"] <= 3 + MOST_UNKNOWN * total["known"]
    assert not IS_FULL or total["right"] >= least


@pytest.mark.parametrize("precision", PRECISIONS)
def test_limits_are_those_of_the_format(folders, precision):
    """For half of the cases the tolerance is below eight times UNIT, the largest relative rounding error."""
    some = [folder for folder in folders[SEED % 12 :: 12] if not (folder / "random").exists()]
    found = judged("ref:nvidia:sm_90a", precision, some)  # no kernels: simulates all roundings of the device
    widest = sorted(float(words.split()[-2]) for words in found.values() if words.startswith("right"))
    assert len(widest) > 0.9 * len(some)
    assert widest[len(widest) // 2] < 8 * UNIT[precision]


OPEN = """
<ir_version: 10, opset_import: ["" : 21]>
eye_of_open_rows (float[n, 3] x) => (float[n, 2] y) <float[3, 2] w = {0.1, -0.7, 1.3, 0.9, -0.3, 0.6}>
{
  eye = EyeLike (x)
  y = MatMul (eye, w)
}
"""


def test_open_sizes_are_rounded_as_the_device_does(tmp_path):
    """The number of rows is open, so the device computes the product and rounds it. If ref knew that number, its passes
    would fold the product in full precision, and the tolerance would be too small."""
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(onnx.parser.parse_model(OPEN).SerializeToString())
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(np.zeros((4, 3), np.float32)).SerializeToString())
    (words,) = judged("ref:nvidia:sm_90a", "bf16", [folder]).values()
    assert words.startswith("right") and UNIT["bf16"] / 4 < float(words.split()[-2]) < 8 * UNIT["bf16"]


STATIC = """
<ir_version: 10, opset_import: ["" : 21]>
length_of_k (float[4] a, int64[m] k, float[5, 4] x) => (float[n] top, int64[n] places, float[5, 4] y)
{
  top, places = TopK (a, k)
  y = Softmax <axis = 0> (x)
}
"""


def test_other_inputs_of_a_specialised_program_are_rounded(tmp_path):
    """The program is compiled for the length of k. The device rounds the softmax before transposing it. If all inputs
    were constants for ref, its passes would fold the softmax in full precision."""
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(onnx.parser.parse_model(STATIC).SerializeToString())
    random = np.random.default_rng(1)
    for i, x in enumerate((np.arange(4, dtype=np.float32), np.array([2]), random.standard_normal((5, 4), np.float32))):
        (folder / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    (words,) = judged("ref:nvidia:sm_90a", "bf16", [folder]).values()
    assert words.startswith("right") and UNIT["bf16"] / 4 < float(words.split()[-2]) < 8 * UNIT["bf16"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_damaged_kernel_is_found(folders, precision, monkeypatch):
    some = [folder for folder in folders if folder.name in ("test_matmul_2d", "test_basic_conv_with_padding", "test_softmax_example")]
    assert sums(judged("cpu", precision, some)) == {"right": 3, "known": 3, "unknown": 0}
    monkeypatch.setenv("WEFT_BREAK_KERNEL", "_")
    assert sums(judged("cpu", precision, some)) == {"wrong": 3}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default=",".join(PRECISIONS))
    parser.add_argument("--jobs", type=int, help="processes; as many as there are cores")
    parser.add_argument("--out", help="a file of bench/results")
    words = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as root:
        folders = write_cases(pathlib.Path(root))
        for precision in words.precision.split(","):
            found = judged(words.device, precision, folders, os.environ.get("AMDEMU_CHIPS", ""), words.jobs)
            for name, verdict in found.items():
                if not verdict.startswith("right"):
                    print(f"{words.device} {precision}: {name} {verdict[:400]}")
            wrong += sums(found, os.environ.get("AMDEMU_CHIPS", words.device), precision, words.out)["wrong"]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
