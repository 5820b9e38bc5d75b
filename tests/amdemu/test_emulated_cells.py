# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of few rows, in which one kernel computes the products of all gates and the cell, on emulated AMD
GPUs. `test_emulated_cells.py DEVICE` checks the same networks on a device."""
import json
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import emulated

GATES = {"LSTM": 4, "GRU": 3}
LENGTHS, PEEPHOLES = "lengths", "peepholes"
# operator, hidden size, batch, steps (names: the sizes are open), directions, attributes and extra operands
NETWORKS = [
    ("LSTM", 16, 1, 3, 2, {}),
    ("LSTM", 40, 4, 3, 1, {"layout": 1}),
    ("LSTM", 256, 8, 3, 2, {}),
    ("LSTM", 24, 8, "seq", 2, {LENGTHS: [3, 1, 2, 3, 0, 3, 3, 2]}),
    ("LSTM", 40, 3, 3, 1, {PEEPHOLES: True, "clip": 0.7}),
    ("LSTM", 72, 5, "seq", 1, {"input_forget": 1}),
    ("GRU", 16, 1, 3, 2, {"linear_before_reset": 1}),
    ("GRU", 40, 8, "seq", 2, {"linear_before_reset": 1}),
    ("GRU", 256, 4, 3, 1, {"linear_before_reset": 1}),
    ("GRU", 48, 8, 3, 2, {"linear_before_reset": 0}),
    ("GRU", 16, 2, "seq", 1, {"linear_before_reset": 0}),
    ("LSTM", 40, "batch", "seq", 2, {}),
    ("LSTM", 256, "batch", 2, 1, {}),
    ("GRU", 24, "batch", 3, 2, {"linear_before_reset": 1}),
    ("GRU", 48, "batch", "seq", 1, {"linear_before_reset": 0}),
]
WIDTH = 24


def model(path, op, hidden, batch, steps, directions, how, reader=None):
    """`reader`: the operator that reads the states; else they are a result of the program, in f32."""
    draw, gates = np.random.default_rng(hidden), GATES[op]
    attributes = {name: value for name, value in how.items() if name not in (LENGTHS, PEEPHOLES)}
    shapes = {"w": (directions, gates * hidden, WIDTH), "r": (directions, gates * hidden, hidden), "b": (directions, 2 * gates * hidden)}
    weights = {name: (draw.standard_normal(shape) / 4).astype(np.float32) for name, shape in shapes.items()}
    operands = ["x", "w", "r", "b", "", ""]
    if LENGTHS in how:
        weights[LENGTHS], operands[4] = np.array(how[LENGTHS], np.int32), LENGTHS
    if PEEPHOLES in how:
        weights[PEEPHOLES] = draw.standard_normal((directions, 3 * hidden)).astype(np.float32)
        operands += ["", PEEPHOLES]
    results = ["y", "h", "c"][: 3 if op == "LSTM" else 2]
    states = ["states" if reader else "y", *results[1:]]
    node = helper.make_node(op, operands, states, hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward", **attributes)
    dims = [batch, steps, WIDTH] if how.get("layout") else [steps, batch, WIDTH]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    nodes = [node, helper.make_node(reader, ["states"], ["y"])] if reader else [node]
    graph = helper.make_graph(nodes, "cells", [x], outputs, [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def words(path, network, precision, device, batch=3):
    """Returns the arguments of `weft verify`."""
    sizes = [word for name, size in (("batch", batch), ("seq", 3)) if name in network for word in ("--at", f"{name}={size}")]
    return ["verify", path, "--device", device, "--precision", precision, *sizes, *(["--norm", "1e-2"] if precision != "f32" else [])]


@pytest.mark.rotates(3)
@pytest.mark.parametrize(("chip", "precision"), [("gfx1100", "f32"), ("gfx942", "f16"), ("gfx942", "f32"), ("gfx1201", "bf16")])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: f"{n[0]}-{n[1]}-{n[2]}-{n[3]}-{n[4]}")
def test_cells_of_few_rows(network, chip, precision, tmp_path):
    model(tmp_path / "cells.onnx", *network)
    done, kernels = emulated.counted(chip, tmp_path, "weft", *words(tmp_path / "cells.onnx", network, precision, "amd:0"))
    assert done.returncode == 0 and "warning" not in done.stderr, done.stdout + done.stderr
    for kernel in kernels:
        assert kernel["spills"] == kernel["private_bytes"] == kernel["flat"] == 0, kernel["kernel"]
    assert any(kernel["kernel"].startswith("dot") and "sigmoid" in kernel["kernel"] for kernel in kernels), "the cell is fused"


@pytest.mark.rotates(3)
@pytest.mark.parametrize(("chip", "precision"), [("gfx1100", "f16"), ("gfx942", "f32")])
@pytest.mark.parametrize("network", [n for n in NETWORKS if "batch" in n], ids=lambda n: f"{n[0]}-{n[1]}-{n[3]}")
def test_cells_of_any_number_of_rows(network, chip, precision, tmp_path):
    """One, four or eight rows at a time, or tiles of many rows; the cell is always in the same launch."""
    model(tmp_path / "cells.onnx", *network)
    names = set()
    for batch in (1, 4, 8, 13, 64, 65, 140):
        report = tmp_path / f"report{batch}.jsonl"
        done = emulated.run(chip, "weft", *words(tmp_path / "cells.onnx", network, precision, "amd:0", batch), report=report)
        assert done.returncode == 0, f"{batch}\n" + done.stdout + done.stderr
        launched = {json.loads(line)["kernel"] for line in report.read_text().splitlines()}
        assert not any("pointwise" in name and "tanh" in name for name in launched), launched
        names |= {name for name in launched if name.startswith("dot") and ("sigmoid" in name or "tanh" in name)}
    assert len(names) >= 4, names


@pytest.mark.rotates(4)
@pytest.mark.parametrize("chip", ["nvidia:sm_90a", "nvidia:sm_80"])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: f"{n[0]}-{n[1]}-{n[2]}-{n[3]}-{n[4]}")
def test_cells_compile_for_nvidia(network, chip, tmp_path):
    """Their matrix unit has a kernel of its own (gemv_mma.h)."""
    model(tmp_path / "cells.onnx", *network)
    done = emulated.run("gfx942", "weft", "compile", tmp_path / "cells.onnx", "--target", chip, "--precision", "f16", "-o", tmp_path / "cells.weft")
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("batch", [8, "batch"])
@pytest.mark.parametrize(("op", "how", "launches"), [("LSTM", {}, 1), ("GRU", {"linear_before_reset": 1}, 1), ("GRU", {"linear_before_reset": 0}, 2)])
@pytest.mark.parametrize("chip", ["nvidia:sm_90a", "nvidia:sm_80", "amd:gfx942"])
def test_a_step_is_one_launch(op, how, launches, chip, batch, tmp_path):
    """Without linear_before_reset, the candidate's product of a GRU reads the result of another gate."""
    counts = []
    for steps in (5, 9):
        model(tmp_path / "cells.onnx", op, 64, batch, steps, 1, how, "Relu")
        text = emulated.run("gfx942", "weft", "explain", tmp_path / "cells.onnx", "--device", chip, "--precision", "f16").stdout
        counts.append(text.count("   why: "))
    assert counts[1] - counts[0] == 4 * launches


def main():
    with tempfile.TemporaryDirectory() as folder:
        failed = 0
        for network in NETWORKS:
            for precision in ("f32", "f16", "bf16"):
                path = f"{folder}/cells.onnx"
                model(path, *network)
                command = [emulated.BUILD / "bin/weft", *words(path, network, precision, sys.argv[1])]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
                failed += done.returncode != 0
                print("right" if done.returncode == 0 else "WRONG", precision, network, flush=True)
                if done.returncode:
                    print(done.stdout + done.stderr)
        sys.exit(failed > 0)


if __name__ == "__main__":
    main()
