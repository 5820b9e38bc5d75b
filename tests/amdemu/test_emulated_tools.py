# SPDX-License-Identifier: Apache-2.0
"""The tools that measure performance and find faults, on emulated GPUs: `weft perf`, `weft verify --bisect`, `weft
reduce`."""
import json

import onnx
import pytest
from onnx import numpy_helper

import emulated

DIGITS = emulated.ROOT / "examples/digits/digits.onnx"
# GFLOP/s in f32 and in f16, GB/s, from the data sheets of RX 7900 XTX, MI300X and RX 9070 XT.
SHEETS = {"gfx1100": (61400, 122800, 960), "gfx942": (163400, 1307400, 5300), "gfx1201": (48700, 195000, 640)}

CONCATENATION = """<ir_version: 10, opset_import: ["" : 20]>
f (float[n, 6] x) => (float[n, 18] y)
{ a = Softmax (x)  b = Softmax <axis = 0> (x)  t = Tanh (x)  c = Softmax (t)  d = Concat <axis = 1> (a, b, c)  y = Softmax (d) }"""

CHAIN = """<ir_version: 10, opset_import: ["" : 20]>
f (float[n, 6] x) => (float[n, 4] y, float[n, 6] z) <float[6, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8}>
{ a = Tanh (x)  b = MatMul (a, w)  c = Neg (b)  d = Softmax (c)  e = Exp (d)  y = Abs (e)  f = Sin (a)  z = Cos (f) }"""


def saved(folder, text):
    path = folder / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


@pytest.mark.rotates(2)
@pytest.mark.parametrize("chip,precision", [("gfx942", "f32"), ("gfx942", "bf16"), ("gfx1100", "f16"), ("gfx1201", "f16")])
def test_perf_compares_with_the_gpu_in_the_precision_used(chip, precision):
    f32, f16, gbytes = SHEETS[chip]
    done = emulated.run(chip, "weft", "perf", DIGITS, "--device", "gpu", "--precision", precision, "-n", 1, "--warmup", 0, "--json", "-")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["peak_gflops"]["f32"], report["peak_gflops"]["f16"], report["peak_gbytes_per_second"]) == (f32, f16, gbytes)
    products = [step for step in report["steps"] if f"_{precision}_" in step["kernel"]]
    assert products and all(step["peak_gflops"] == (f32 if precision == "f32" else f16) for step in products)
    assert all(0 < step["roofline"] < 1 for step in report["steps"]), "an emulator is slower than the chip"


def test_bisect_waits_for_the_last_part_of_a_concatenation(tmp_path):
    model = saved(tmp_path, CONCATENATION)
    done = emulated.run("gfx1100", "weft", "verify", model, "--device", "gpu", "--at", "n=5", "--bisect", "--per-instruction")
    assert done.returncode == 0 and "(Concat)" in done.stdout, done.stdout + done.stderr


@pytest.mark.rotates(2)
@pytest.mark.parametrize("chip,precision", [("gfx1100", "f16"), ("gfx942", "bf16"), ("gfx942", "f32")])
def test_reduce_on_a_gpu(tmp_path, monkeypatch, chip, precision):
    """A kernel is broken on purpose. `weft reduce` leaves one of eight nodes: the node of the broken kernel."""
    model, small = saved(tmp_path, CHAIN), tmp_path / "small"
    monkeypatch.setenv("WEFT_BREAK_KERNEL", "softmax")
    words = ["reduce", model, "-o", small, "--device", "gpu", "--precision", precision, "--at", "n=3"]
    done = emulated.run(chip, "weft", *words)
    assert done.returncode == 0, done.stderr
    assert [node.op_type for node in onnx.load(small / "model.onnx").graph.node] == ["Softmax"]
    assert numpy_helper.to_array(onnx.load_tensor(small / "input_0.pb")).shape == (3, 4)
    monkeypatch.delenv("WEFT_BREAK_KERNEL")
    done = emulated.run(chip, "weft", *words)
    assert done.returncode == 2 and "does not fail" in done.stderr, done.stderr
