# SPDX-License-Identifier: Apache-2.0
"""What is chosen and refused where a GPU is: the device `auto`, limits of memory, numbers of compute units."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import emulated

DIGITS = [emulated.ROOT / "examples/digits/digits.onnx", "--input", emulated.ROOT / "examples/digits/ten.npy"]


def write(path, nodes, inputs, outputs, constants=()):
    values = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    constants = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants]
    graph = helper.make_graph(nodes, "g", *values, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def non_zero(path):
    """The sizes of what is found are only known in the run."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["found"], name="find"),
             helper.make_node("Transpose", ["found"], ["y"])]
    write(path, nodes, [("x", TensorProto.FLOAT, [4, 5])], [("y", TensorProto.INT64, ["n", 2])])


def boxes(path):
    nodes = [helper.make_node("NonMaxSuppression", ["b", "s"], ["y"], name="choose")]
    write(path, nodes, [("b", TensorProto.FLOAT, [1, 6, 4]), ("s", TensorProto.FLOAT, [1, 1, 6])], [("y", TensorProto.INT64, ["n", 3])])


def loop(path):
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3, name="rnn")]
    weights = [("w", np.ones((1, 12, 4), np.float32)), ("r", np.ones((1, 12, 3), np.float32))]
    write(path, nodes, [("x", TensorProto.FLOAT, ["seq", 1, 4])], [("y", TensorProto.FLOAT, ["seq", 1, 1, 3])], weights)


@pytest.mark.parametrize("model, node, why", [
    (non_zero, "'find' (NonZero)", "sizes that the run computes are on the cpu only"),
    (boxes, "'choose' (NonMaxSuppression)", "runs on the cpu only"),
    (loop, "'rnn' (LSTM)", "loops are on the cpu only")])
def test_auto_goes_to_the_cpu_where_the_gpu_cannot(model, node, why, tmp_path):
    path = tmp_path / "model.onnx"
    model(path)
    sizes = ["--at", "seq=3"] if model is loop else []
    run = lambda device: emulated.run("gfx1100", "weft", "run", path, "--fill", "rand", *sizes, "--device", device)
    refused, there, here = run("amd:0"), run("auto"), run("cpu")
    assert refused.returncode == 4 and f"{node}: {why}" in refused.stderr
    assert "--device cpu runs all of it" in refused.stderr and "bind" not in refused.stderr
    assert refused.stderr.count(node) == 1
    assert there.returncode == here.returncode == 0, there.stderr + here.stderr
    assert there.stdout == here.stdout and here.stderr == ""
    (line,) = there.stderr.strip().splitlines()
    assert "device auto: the model runs on the cpu, as it cannot on amd:0" in line and node in line and why in line
    assert emulated.run("gfx1100", "weft", "verify", *DIGITS).stderr == ""  # auto is the GPU where that can


def test_memory_limits_hold_on_gpus():
    run = lambda limit: emulated.run("gfx1100", "weft", "run", *DIGITS, "--device", "amd:0", "--memory-limit", limit)
    weights, working, enough = run("1KB"), run("200KB"), run("100MB")
    assert weights.returncode == working.returncode == 5
    assert "E401" in weights.stderr and "the weights need" in weights.stderr
    assert "E401" in working.stderr and "the run needs" in working.stderr and "of them for weights" in working.stderr
    assert enough.returncode == 0, enough.stderr


@pytest.mark.parametrize("chip, units", [("gfx1100", 96), ("gfx942", 304), ("gfx1200", 32)])
def test_compute_units_are_those_of_the_device(chip, units):
    """HIP counts pairs of compute units from gfx10 on."""
    assert f"{units} units" in emulated.run(chip, "weft", "devices").stdout
