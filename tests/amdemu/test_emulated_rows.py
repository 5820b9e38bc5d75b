# SPDX-License-Identifier: Apache-2.0
"""Reductions and normalisations of few long rows on emulated AMD GPUs, with fused prologues and epilogues. Many thread
blocks share each row; with open sizes a block may compute one part, several, or none."""
import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import emulated

NODES = {  # output -> its nodes: a reduction or norm of x[n, 6, h, w], mostly between elementwise nodes
    "mean": [("Mul", "x x", {}), ("ReduceMean", "_ pixels", {"keepdims": 1}), ("Sigmoid", "_", {})],
    "last": [("Transpose", "x", {"perm": [0, 2, 3, 1]}), ("Abs", "_", {}), ("ReduceMean", "_ middle", {"keepdims": 0}), ("Sigmoid", "_", {})],
    "largest": [("Neg", "x", {}), ("ReduceMax", "_ pixels", {"keepdims": 0}), ("Relu", "_", {})],
    "length": [("Transpose", "x", {"perm": [0, 2, 3, 1]}), ("ReduceL2", "_ middle", {"keepdims": 1}), ("Sqrt", "_", {})],
    "across": [("Transpose", "x", {"perm": [0, 1, 3, 2]}), ("Sigmoid", "_", {}), ("ReduceSum", "_ third", {"keepdims": 0}), ("CumSum", "_ second", {})],
    "norm": [("Abs", "x", {}), ("LayerNormalization", "_ gain", {"axis": 1, "epsilon": 1e-2}), ("Sigmoid", "_", {})],
    "group": [("GroupNormalization", "x scale scale", {"num_groups": 2, "epsilon": 1e-2}), ("Relu", "_", {})],
    "instance": [("InstanceNormalization", "x six six", {"epsilon": 1e-2}), ("Tanh", "_", {})],
    "weights": [("Reshape", "x flat", {}), ("Mul", "_ ten", {}), ("Softmax", "_", {"axis": 1})],
    "place": [("Reshape", "x flat", {}), ("ArgMax", "_", {"axis": 1})],
}
PARTS = ["reduce_mean", "reduce_max", "reduce_sum", "layer_norm", "softmax", "arg"]


def model(wanted, dims):
    constants = {"pixels": np.array([2, 3], np.int64), "middle": np.array([1, 2], np.int64), "third": np.array([3], np.int64), "second": np.array(2, np.int64),
                 "flat": np.array([0, -1], np.int64),
                 "ten": np.array(10, np.float32), "scale": np.linspace(0.5, 2, 2, dtype=np.float32),
                 "six": np.linspace(0.5, 2, 6, dtype=np.float32), "gain": np.array(0.75, np.float32)}
    nodes, outputs = [], []
    for output in wanted:
        steps = NODES[output]
        for number, (op, operands, attributes) in enumerate(steps):
            name = output if number + 1 == len(steps) else f"{output}{number}"
            ins = [f"{output}{number - 1}" if word == "_" else word for word in operands.split()]
            nodes.append(helper.make_node(op, ins, [name], **attributes))
        outputs.append(helper.make_tensor_value_info(output, TensorProto.INT64 if output == "place" else TensorProto.FLOAT, None))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    graph = helper.make_graph(nodes, "rows", [x], outputs, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def verify(folder, chip, wanted, dims, precision, *arguments):
    onnx.save(model(wanted, dims), folder / "rows.onnx")
    allowed = ["--norm", "1e-2"] if precision != "f32" else []
    done, kernels = emulated.counted(chip, folder, "weft", "verify", folder / "rows.onnx", "--device", "amd:0",
                                     "--precision", precision, *allowed, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    for kernel in kernels:
        assert kernel["spills"] == kernel["private_bytes"] == kernel["flat"] == 0, kernel["kernel"]
    return {kernel["kernel"] for kernel in kernels}


@pytest.mark.parametrize(("chip", "precision"), [("gfx1100", "f32"), ("gfx942", "f16"), ("gfx1201", "bf16")])
def test_fused_rows(chip, precision, tmp_path, monkeypatch):
    if chip != "gfx1201":  # there, small reductions share launches
        monkeypatch.setenv("WEFT_GPU_MERGE", "0")
    wanted = [name for name in NODES if precision == "f32" or name != "place"]  # rounding may change which element is the largest
    kernels = verify(tmp_path, chip, wanted, [1, 6, 101, 167], precision)
    for stem in PARTS if chip != "gfx1201" else []:
        assert any(k.startswith(f"{stem}_parts") for k in kernels) or (stem == "arg" and precision != "f32"), (stem, kernels)


@pytest.mark.parametrize("sizes", [(3, 101, 109), (1, 3, 2), (40, 5, 7)])
def test_open_sizes(sizes, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_GPU_MERGE", "0")
    at = [word for name, size in zip("nhw", sizes) for word in ("--at", f"{name}={size}")]
    kernels = verify(tmp_path, "gfx1100", ["mean", "last", "largest", "length", "norm", "instance"], ["n", 6, "h", "w"], "f32", *at)
    for stem in PARTS[:4]:
        assert any(k.startswith(f"{stem}_parts") for k in kernels), (stem, kernels)


def test_short_rows_stay_whole(tmp_path):
    kernels = verify(tmp_path, "gfx942", list(NODES), [2, 6, 16, 15], "f32")
    assert not any("_parts" in kernel for kernel in kernels), kernels


def groups_model(groups, channels, spatial, mean):
    """Between two convolutions: a group norm, whose operand has about this mean, with gain, bias and SiLU."""
    rng = np.random.default_rng(groups + channels)
    total, taps = groups * channels, (1,) * len(spatial)
    shapes = {"w": (total, 3, *taps), "far": (total,), "gain": (total,), "bias": (total,), "v": (4, total, *taps)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    weights["far"] += mean
    nodes = [("Conv", "x w far", "c", {}), ("GroupNormalization", "c gain bias", "g", {"num_groups": groups}), ("Sigmoid", "g", "s", {}),
             ("Mul", "g s", "m", {}), ("Conv", "m v", "y", {}), ("Add", "m c", "sum", {})]
    graph = helper.make_graph([helper.make_node(op, ins.split(), [out], **attributes) for op, ins, out, attributes in nodes], "groups",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, *spatial])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "sum")],
                              [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)


@pytest.mark.parametrize(("groups", "channels", "spatial"), [(4, 1, (5, 7)), (2, 3, (5, 7)), (2, 4, (67, 62)), (3, 5, (9,)), (2, 8, (37,)), (3, 12, (9, 11)),
                                                             (2, 16, (3, 5, 7)), (2, 4, (1, 1)), (8, 4, (67, 62)), (3, 12, (30, 41)), (40, 64, (13, 14))])
@pytest.mark.parametrize(("chip", "precision"), [("gfx1100", "f32"), ("gfx942", "f16")])
def test_groups_of_channels(chip, precision, groups, channels, spatial, tmp_path):
    mean = 100 if precision == "f32" else 1  # f16 stores the operand: near 100 its numbers are 0.06 apart
    onnx.save(groups_model(groups, channels, spatial, mean), tmp_path / "groups.onnx")
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", tmp_path / "groups.onnx", "--device", "amd:0", "--at", "n=3",
                                     "--precision", precision, *(["--norm", "1e-2"] if precision != "f32" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    fused = [k for k in kernels if k["kernel"].startswith("layer_norm_mul_add_sigmoid_mul")]
    assert len(fused) == (channels % 4 == 0), kernels
    if channels % 4 == 0 and channels * math.prod(spatial) > 8192:  # long groups: blocks read whole pixels
        assert fused[0]["bytes"] > 32 * fused[0]["lines"], fused
