# SPDX-License-Identifier: Apache-2.0
"""Programs on a machine with an emulated GPU: steps that run on the GPU or on the CPU, captured loops, the device
`auto`, memory limits, deadlines, the memory of results."""
import os
import re
import sys

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
    """Makes a model whose result sizes are known only in the run."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["found"], name="find"),
             helper.make_node("Transpose", ["found"], ["y"])]
    write(path, nodes, [("x", TensorProto.FLOAT, [64, 50])], [("y", TensorProto.INT64, ["n", 2])])


def boxes(path):
    nodes = [helper.make_node("NonMaxSuppression", ["b", "s", "most", "overlap"], ["y"], name="choose")]
    write(path, nodes, [("b", TensorProto.FLOAT, [1, 300, 4]), ("s", TensorProto.FLOAT, [1, 2, 300])], [("y", TensorProto.INT64, ["n", 3])],
          [("most", np.array(40)), ("overlap", np.array(0.3, np.float32))])


def loop(path):
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3, name="rnn")]
    weights = [("w", np.ones((1, 12, 4), np.float32)), ("r", np.ones((1, 12, 3), np.float32))]
    write(path, nodes, [("x", TensorProto.FLOAT, ["seq", 1, 4])], [("y", TensorProto.FLOAT, ["seq", 1, 1, 3])], weights)


def texts(path):
    """Makes a model that looks up strings before a product. A GPU has no strings, so the processor looks them up."""
    keys = helper.make_tensor("keys", TensorProto.STRING, [3], [b"1", b"2", b"3"])
    node = helper.make_node("LabelEncoder", ["s"], ["found"], name="look", domain="ai.onnx.ml", keys_tensor=keys,
                            values_tensor=helper.make_tensor("values", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]),
                            default_tensor=helper.make_tensor("default", TensorProto.FLOAT, [1], [-1.0]))
    cast = helper.make_node("Cast", ["t"], ["s"], to=TensorProto.STRING)
    nodes = [cast, node, helper.make_node("MatMul", ["found", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    ports = [[helper.make_tensor_value_info("t", TensorProto.INT64, [2, 3])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])]]
    graph = helper.make_graph(nodes, "g", *ports, [onnx.numpy_helper.from_array(np.eye(3, 4, dtype=np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 4)], ir_version=9), path)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
@pytest.mark.parametrize("model", [non_zero, boxes, loop])
def test_sizes_and_trips_that_the_run_computes_on_gpus(model, chip, tmp_path):
    """All steps run on the GPU: for NonZero, for NonMaxSuppression, and for an LSTM with an open number of steps. None
    leaves a long vector to one thread."""
    path = tmp_path / "model.onnx"
    model(path)
    sizes = ["--at", "seq=3"] if model is loop else []
    done = emulated.run(chip, "weft", "verify", path, *sizes, "--device", "amd:0")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stdout + done.stderr
    steps = emulated.run(chip, "weft", "explain", path, "--device", "amd:0").stdout
    assert "cpu_part" not in steps and "updates in order" not in steps


def many_boxes(path, batch, classes, n, most, centers):
    """Makes a model with NonMaxSuppression; returns boxes and scores. Among them are degenerate boxes, equal scores, NaN
    and infinite scores, and zeros of both signs."""
    node = helper.make_node("NonMaxSuppression", ["b", "s", "most", "overlap", "least"], ["y"], center_point_box=centers)
    constants = [("most", np.array(most)), ("overlap", np.array(0.4, np.float32)), ("least", np.array(-0.5, np.float32))]
    ports = [("b", TensorProto.FLOAT, ["batch", "n", 4]), ("s", TensorProto.FLOAT, ["batch", "classes", "n"])]
    write(path, [node], ports, [("y", TensorProto.INT64, ["selected", 3])], constants)
    draw = np.random.default_rng(n)
    boxes = draw.random((batch, n, 4), np.float32) * np.float32([8, 8, 1, 1])
    if not centers:
        boxes[..., 2:] += boxes[..., :2]
    boxes[:, ::17, 2:] = boxes[:, ::17, :2]
    scores = draw.integers(-10, 200, (batch, classes, n)).astype(np.float32) / 200
    for start, value in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
        scores[..., start::41] = value
    return boxes, scores


@pytest.mark.parametrize("chip", emulated.CHIPS)
@pytest.mark.parametrize("sizes", [(1, 1, 3000, 3000, 0), (2, 3, 700, 90, 1), (1, 2, 126, 200, 0), (1, 5, 64, 2, 1)])
def test_boxes_are_kept_as_on_the_processor(sizes, chip, tmp_path):
    path, answers = tmp_path / "model.onnx", []
    for name, value in zip("bs", many_boxes(path, *sizes)):
        np.save(tmp_path / f"{name}.npy", value)
    for device in "amd:0", "cpu":
        given = [f"--input={name}={tmp_path / name}.npy" for name in "bs"]
        done = emulated.run(chip, "weft", "run", path, *given, f"--output=y={tmp_path / 'y.npy'}", "--device", device, resident=3)
        assert done.returncode == 0, done.stdout + done.stderr
        answers.append(np.load(tmp_path / "y.npy"))
    assert len(answers[0]) > 3 and np.array_equal(*answers)


def both_ways(path):
    """Makes a recurrent network of two bidirectional layers; the number of steps is a size of the input."""
    draw, nodes, weights, x = np.random.default_rng(3), [], [], "x"
    for layer, (width, op) in enumerate([(4, "LSTM"), (10, "GRU")]):
        gates, names = {"LSTM": 4, "GRU": 3}[op], [f"{name}{layer}" for name in "wrb"]
        shapes = [(2, gates * 5, width), (2, gates * 5, 5), (2, 2 * gates * 5)]
        weights += [(name, draw.standard_normal(shape).astype(np.float32) / 3) for name, shape in zip(names, shapes, strict=True)]
        nodes += [helper.make_node(op, [x, *names], [f"y{layer}"], hidden_size=5, direction="bidirectional"),
                  helper.make_node("Transpose", [f"y{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3]),
                  helper.make_node("Reshape", [f"t{layer}", "sizes"], [f"x{layer}"])]
        x = f"x{layer}"
    write(path, nodes, [("x", TensorProto.FLOAT, ["seq", "batch", 4])], [(x, TensorProto.FLOAT, ["seq", "batch", 10])],
          [*weights, ("sizes", np.array([0, 0, -1]))])


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_loops_over_known_sizes_become_graphs(chip, tmp_path):
    """Runs with the same sizes are captured, with all trips in one graph; new sizes get a new graph. Both directions of
    a layer become one loop, and their kernels share launches."""
    both_ways(tmp_path / "model.onnx")
    code = """
import numpy as np, weft, sys
program, right = (weft.compile(sys.argv[1], device=device) for device in ("amd:0", "ref"))
draw = np.random.default_rng(4)
for seq in (7, 7, 7, 3, 3, 7, 1, 1, 3, 0, 0):
    x = draw.standard_normal((seq, 2, 4)).astype(np.float32)
    (y,), (r,) = (p.run({"x": x}).values() for p in (program, right))
    assert y.shape == r.shape and np.allclose(y, r, atol=1e-5), (seq, np.abs(y - r).max())
"""
    os.environ["WEFT_DEBUG"] = "2,gpu"
    try:
        done = emulated.run(chip, sys.executable, "-c", code, tmp_path / "model.onnx")
    finally:
        del os.environ["WEFT_DEBUG"]
    assert done.returncode == 0, done.stderr[-4000:]
    captured = [int(count) for count in re.findall(r"capturing (\d+) launches", done.stderr)]
    before, each = captured[-1], captured[-2] - captured[-1]
    assert captured == [before + trips * each for trips in (7, 3, 1, 0)]
    assert each <= 8, "two layers need a product and a cell each, and rows of the results; directions apart would need twice as many"


def test_captured_loops_are_queued_on_the_callers_stream(tmp_path):
    """Two contexts run on two streams of the caller; a missing wait between streams would give wrong answers."""
    both_ways(tmp_path / "model.onnx")
    done = emulated.run("gfx1100", "weft-amd-streams", tmp_path / "model.onnx")
    assert done.returncode == 0, done.stdout + done.stderr


def test_operators_that_gpus_lack_run_on_the_cpu_between_copies(tmp_path):
    texts(tmp_path / "model.onnx")
    np.save(tmp_path / "t.npy", np.array([[1, 2, 9], [3, 1, 2]]))
    run = lambda device: emulated.run("gfx1100", "weft", "run", tmp_path / "model.onnx", "--input", f"t={tmp_path / 't.npy'}", "--device", device)
    there, auto, here = run("amd:0"), run("auto"), run("cpu")
    assert there.returncode == auto.returncode == here.returncode == 0, there.stderr + auto.stderr + here.stderr
    assert there.stdout == auto.stdout == here.stdout and here.stderr == ""
    for done in (there, auto):
        (line,) = done.stderr.strip().splitlines()
        assert "device amd:0: the cpu runs, between copies: " in line
        assert "'look' (ai.onnx.ml:LabelEncoder): strings and containers are the processor's" in line and "(Cast)" in line
    assert emulated.run("gfx1100", "weft", "verify", *DIGITS).stderr == ""  # no step runs on the CPU


def test_auto_takes_the_cpu_if_the_weights_exceed_the_memory_of_the_gpu(tmp_path):
    """The CPU reads the 4 MiB of weights from the file; the GPU would need a copy in its memory."""
    weights = onnx.numpy_helper.from_array(np.arange(1 << 20, dtype=np.float32), "w")
    nodes = [helper.make_node("Mul", ["w", "x"], ["p"]), helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0)]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)] for name, sizes in (("x", [1]), ("y", []))]
    graph = helper.make_graph(nodes, "g", *ports, [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "model.onnx")
    run = lambda device: emulated.run("gfx1100", "weft", "run", tmp_path / "model.onnx", "--memory-limit", str(2 << 20), "--device", device)
    auto, gpu = run("auto"), run("amd:0")
    assert gpu.returncode != 0 and "error[E401]" in gpu.stderr
    assert auto.returncode == 0 and "the model runs on the cpu, as it cannot on amd:0" in auto.stderr, auto.stderr


def test_a_program_may_have_no_kernel(tmp_path):
    """A model that computes only strings runs on the CPU, without kernels."""
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    ports = [[helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in names] for names in (["a", "b"], ["y"])]
    graph = helper.make_graph([node], "g", *ports)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "model.onnx")
    done = emulated.run("gfx1100", "weft", "explain", tmp_path / "model.onnx", "--device", "amd:0")
    assert done.returncode == 0 and "part on cpu" in done.stdout, done.stdout + done.stderr


def test_a_saved_program_holds_its_parts(tmp_path):
    texts(tmp_path / "model.onnx")
    np.save(tmp_path / "t.npy", np.array([[1, 2, 9], [3, 1, 2]]))
    saved = emulated.run("gfx1100", "weft", "compile", tmp_path / "model.onnx", "--target", "amd:gfx1100", "-o", tmp_path / "m.weft")
    assert saved.returncode == 0, saved.stderr
    given = ["--input", f"t={tmp_path / 't.npy'}", "--device"]
    done = emulated.run("gfx1100", "weft", "run", tmp_path / "m.weft", *given, "amd:0")
    assert done.returncode == 0 and done.stdout == emulated.run("gfx1100", "weft", "run", tmp_path / "model.onnx", *given, "cpu").stdout, done.stderr


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


WATCHED = """
import sys, numpy as np, weft
model = weft.compile(sys.argv[1], device="amd:0")
x = np.random.default_rng(0).random((2, 1, 8, 8), np.float32)
answers = [model.run({"image": x}, deadline=3600.0) for _ in range(3)]
same = all(np.array_equal(first, other) for a in answers for first, other in zip(answers[0].values(), a.values()))
try:
    model.run({"image": x}, deadline=1e-9)
except weft.Error as error:
    print(same, error.code)
"""


def test_runs_with_a_deadline_use_the_captured_graph(monkeypatch):
    """The first run executes the steps one by one and is timed. A later run that will end long before its deadline
    replays a graph; a run whose deadline is too short ends early."""
    monkeypatch.setenv("WEFT_DEBUG", "2")
    done = emulated.run("gfx1100", sys.executable, "-c", WATCHED, emulated.ROOT / "examples/digits/digits.onnx")
    assert done.stdout.split() == ["True", "E403"], done.stdout + done.stderr
    assert done.stderr.count("capturing ") == 1, done.stderr


HELD = """
import sys, numpy as np, weft
model = weft.compile(sys.argv[1], device="amd:0")
x = np.random.default_rng(0).standard_normal((40, 1024), np.float32)
first = model.run({"x": x})["y"]
place, kept = first.ctypes.data, model.run({"x": -x})["y"]
apart = kept.ctypes.data != place
right = np.array_equal(first, np.maximum(x, 0)) and np.array_equal(kept, np.maximum(-x, 0))
row = first[7:8]
del first
other = model.run({"x": x})["y"].ctypes.data
del row
smaller = model.run({"x": x[:30]})["y"]
print(apart, right, other != place, smaller.ctypes.data in (place, other), np.array_equal(smaller, np.maximum(x[:30], 0)))
"""


def test_results_lie_in_memory_of_results_that_are_gone(tmp_path):
    """No run writes to the memory of a result that is still held, not even to a part of it."""
    path = tmp_path / "m.onnx"
    write(path, [helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["n", 1024])], [("y", TensorProto.FLOAT, ["n", 1024])])
    done = emulated.run("gfx1100", sys.executable, "-c", HELD, path)
    assert done.stdout.split() == ["True"] * 5, done.stdout + done.stderr
