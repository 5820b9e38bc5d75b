# SPDX-License-Identifier: Apache-2.0
"""ONNX's node cases of empty reductions and of containers on an emulated AMD GPU; the CPU computes the containers.
Also tests division, open channels, and nodes that read a product's result, which is stored in 16 bits."""
import json
import re
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import emulated

NOTHING = re.compile("test_reduce_.*_empty_set")
CONTAINERS = re.compile("test_identity_(sequence|opt)$|test_optional_(get|has)_element")


def test_empty_reductions_and_containers():
    program = emulated.ROOT / "tests/frontends/suite_cases.py"
    done = emulated.run("gfx1100", sys.executable, program, "amd:0", f"{NOTHING.pattern}|{CONTAINERS.pattern}")
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, row = done.stdout.splitlines()
    beside = dict(line.split(" ", 1) for line in lines)  # the cases whose verdict is not exactly "right"
    assert {name: what for name, what in beside.items() if not CONTAINERS.match(name) or not what.startswith("right ")} == {}
    assert json.loads(row)["values"]["right"] - len(beside) >= 15


def readers_of_a_product():
    """Returns a model of a product and of nodes that read its result in other orders: at positions known only in the
    run, in running sums, sorted, or reflected."""
    constants = {"w": np.eye(16, 24, k=3, dtype=np.float32), "one": np.array(1, np.int64), "three": np.array([3], np.int64),
                 "pads": np.array([1, 2, 0, 3], np.int64)}
    nodes = [("MatMul", "x w", "a", {}), ("GatherND", "a at", "picked", {}), ("GatherElements", "a columns", "elements", {"axis": 1}),
             ("ScatterND", "d rows a", "slices", {"reduction": "add"}), ("ScatterElements", "a columns u", "written", {"axis": 1}),
             ("CumSum", "a one", "sums", {}), ("TopK", "a three", "best places", {}), ("Pad", "a pads", "padded", {"mode": "reflect"})]
    shapes = {"x": [4, 16], "d": [9, 24], "u": [4, 3], "at": [3, 2], "columns": [4, 3], "rows": [4, 1]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT if name in "xdu" else TensorProto.INT64, dims)
              for name, dims in shapes.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
               for name in ("picked", "elements", "slices", "written", "sums", "best", "padded")]
    graph = helper.make_graph([helper.make_node(op, ins.split(), outs.split(), **attributes) for op, ins, outs, attributes in nodes],
                              "readers", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_readers_of_16_bits(precision, tmp_path):
    onnx.save(readers_of_a_product(), tmp_path / "readers.onnx")
    places = {"at": [[0, 1], [3, 5], [2, 23]], "columns": [[0, 1, 2], [3, 5, 6], [23, 4, 1], [7, 8, 9]], "rows": [[0], [3], [8], [3]]}
    arguments = []
    for name, values in places.items():
        np.save(tmp_path / f"{name}.npy", np.array(values, np.int64))
        arguments += ["--input", f"{name}={tmp_path / name}.npy"]
    done = emulated.run("gfx1100", "weft", "verify", tmp_path / "readers.onnx", "--device", "amd:0", "--precision", precision,
                        "--norm", "1e-2", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


DIVIDE = """
import sys, numpy as np, weft
x, y = np.load(sys.argv[2])
with np.errstate(all="ignore"):
    right = x / y
got = weft.compile(sys.argv[1], device="amd:0").run({"x": x, "y": y})["z"]
wrong = np.flatnonzero((got.view(np.uint32) != right.view(np.uint32)) & ~(np.isnan(got) & np.isnan(right)))
print(*[f"{x[i]} / {y[i]} is {got[i]}, not {right[i]}" for i in wrong[:5]], sep="\\n")
sys.exit(len(wrong) > 0)
"""


@pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
def test_division_of_any_exponents(chip, tmp_path):
    """Quotients that overflow or are denormal are also right. The compiler implements a division by instructions that
    scale the operands and scale the result back."""
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [20000])
    graph = helper.make_graph([helper.make_node("Div", ["x", "y"], ["z"])], "division", [value("x"), value("y")], [value("z")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "division.onnx")
    operands = np.random.default_rng(0).integers(0, 2**32, (2, 20000), np.uint64).astype(np.uint32).view(np.float32)
    np.save(tmp_path / "operands.npy", operands)
    done = emulated.run(chip, sys.executable, "-c", DIVIDE, tmp_path / "division.onnx", tmp_path / "operands.npy")
    assert done.returncode == 0, done.stdout + done.stderr


def test_sizes_that_only_constants_set(tmp_path):
    """A constant that no kernel reads is still copied to the device, because a size is read from it."""
    text = """<ir_version: 9, opset_import: ["" : 19]>
    sizes (float[4, 4] x) => (int64[n] y) { s = Shape (x)  y = Unique (s) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "sizes.onnx")
    done = emulated.run("gfx1100", "weft", "verify", tmp_path / "sizes.onnx", "--device", "amd:0")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("precision", ["bf16", "f16", "f32"])
def test_open_channels(precision, tmp_path):
    """The number of channels of an image may be open: the weights of a convolution determine it."""
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "channels",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c", "h", 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 3, 2, 2)).astype(np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "channels.onnx")
    for batch in (0, 1, 3):
        sizes = [word for at in (f"n={batch}", "c=3", "h=6") for word in ("--at", at)]
        done = emulated.run("gfx1100", "weft", "verify", tmp_path / "channels.onnx", "--device", "amd:0", "--precision", precision, *sizes)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("channels", [16, 12, 5])
def test_pools_of_a_concatenation(channels, tmp_path):
    """Pools read and write neighbouring channels of one buffer: in whole vectors of 8 or 4, or channel by channel."""
    text = f"""<ir_version: 9, opset_import: ["" : 19]>
    pools (float[n, 3, 6, 5] x, float[{channels}, 3, 1, 1] w, float[4, {4 * channels}, 1, 1] v) => (float[n, 4, 6, 5] y)
    {{ a = Conv (x, w)  b = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (a)
       c = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (b)  d = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c)
       e = Concat <axis = 1> (a, b, c, d)  y = Conv (e, v) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "pools.onnx")
    for chip, precision in ("gfx1100", "f16"), ("gfx942", "f32"):
        done = emulated.run(chip, "weft", "verify", tmp_path / "pools.onnx", "--device", "amd:0", "--precision", precision, "--at", "n=2")
        assert done.returncode == 0, done.stdout + done.stderr
