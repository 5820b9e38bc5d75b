# SPDX-License-Identifier: Apache-2.0
"""Inputs whose values decide the program: the first run with a value compiles it, later runs with this value do not."""
import re
import threading

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import weft

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DEVICES = pytest.mark.parametrize("device", ["cpu", "ref"])
MOST = 32


def model_of(nodes, inputs, output_sizes, initializers=()):
    inputs = [helper.make_tensor_value_info(name, kind, sizes) for name, kind, sizes in inputs]
    outputs = [helper.make_tensor_value_info("y", F32, output_sizes)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def reduction(axes=("k",), **attributes):
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="sum", **attributes)
    return model_of([node], [("x", F32, ["a", "b", "c"]), ("axes", I64, list(axes))], ["p", "q", "r"])


def compiled_count(model):
    return next(int(found.group(1)) for note in model.report()["notes"] if (found := re.search(r"(\d+) so far", note)))


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@DEVICES
def test_each_value_is_compiled_once(device):
    model = weft.compile(reduction(), device=device)
    assert [port.is_static for port in model.inputs] == [False, True]
    assert compiled_count(model) == 0
    for _ in range(2):
        for axes in [0], [1], [-1], [0, 2], [2, 0], []:
            wanted = X.sum(tuple(axes) if axes else None, keepdims=True)
            assert np.array_equal(model(X, np.array(axes, np.int64)), wanted)
    assert compiled_count(model) == 6
    model(X[:, :, :1], np.array([1]))  # other sizes need no other program
    assert compiled_count(model) == 6


@DEVICES
def test_outputs_without_a_type(device):
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    inputs = [helper.make_tensor_value_info("x", F32, ["a", "b", "c"]), helper.make_tensor_value_info("axes", I64, ["k"])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    model = weft.compile(source, device=device)
    assert model.outputs[0].dtype == "f32"
    for axes in [0], [1, -1]:
        assert np.array_equal(model(X, np.array(axes)), X.sum(tuple(axes)))


def test_the_last_used_are_kept():
    node = helper.make_node("CumSum", ["x", "axis"], ["y"])
    model = weft.compile(model_of([node], [("x", F32, ["n"] * 64), ("axis", I64, [])], ["n"] * 64), device="ref")
    x = np.full([1] * 64, 3, np.float32)

    def run(axis):
        assert model(x, np.array(axis)).item() == 3

    for axis in range(MOST):
        run(axis)
    run(0)  # the program of axis 0 is now the most recently used
    run(MOST)
    assert compiled_count(model) == MOST + 1
    run(0)
    assert compiled_count(model) == MOST + 1
    run(1)  # the program of axis 1 was dropped
    assert compiled_count(model) == MOST + 2


def test_threads_that_want_the_same_share_it():
    model = weft.compile(reduction(), device="cpu")
    wrong = []

    def run(axis):
        for _ in range(20):
            if not np.array_equal(model(X, np.array([axis])), X.sum(axis, keepdims=True)):
                wrong.append(axis)

    threads = [threading.Thread(target=run, args=(i % 3,)) for i in range(9)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong and compiled_count(model) == 3


@DEVICES
def test_a_value_that_does_not_fit_is_refused_and_the_next_runs(device):
    model = weft.compile(reduction(), device=device)
    with pytest.raises(weft.ModelError, match=r"(?s)E143.*'sum'.*axes = i64\[1\] \{7\}"):
        model(X, np.array([7]))
    with pytest.raises(weft.UsageError, match="E310"):
        model(X, np.array([0], np.int32))
    assert model(X, np.array([0])).shape == (1, 3, 4)


@DEVICES
def test_operands_that_follow_from_inputs(device):
    nodes = [
        helper.make_node("Cast", ["axis"], ["wide"], to=I64),
        helper.make_node("Add", ["wide", "one"], ["next"]),
        helper.make_node("ReduceMax", ["x", "next"], ["y"], keepdims=0),
    ]
    one = helper.make_tensor("one", I64, [1], [1])
    model = weft.compile(model_of(nodes, [("x", F32, [2, 3, 4]), ("axis", TensorProto.INT32, [1])], ["p", "q"], [one]), device=device)
    for axis in 0, 1, -2:
        assert np.array_equal(model(X, np.array([axis], np.int32)), X.max(axis + 1))


@DEVICES
def test_a_condition_chooses_among_ranks(device):
    def branch(name, op, **attributes):
        node = helper.make_node(op, ["x"], [name], **attributes)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, F32, None)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("t", "Flatten"), else_branch=branch("e", "Identity"))
    model = weft.compile(model_of([node], [("c", BOOL, []), ("x", F32, [2, 3, 4])], None), device=device)
    assert model(np.array(True), X).shape == (2, 12)
    assert model(np.array(False), X).shape == (2, 3, 4)


@DEVICES
def test_a_default_is_a_value_like_others(device):
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"])
    axes = helper.make_tensor("axes", I64, [1], [2])
    model = weft.compile(model_of([node], [("x", F32, [2, 3, 4]), ("axes", I64, [1])], ["p", "q", "r"], [axes]), device=device)
    assert model.inputs[1].has_default and model.inputs[1].is_static
    assert model(X).shape == (2, 3, 1)
    assert model(X, np.array([0])).shape == (1, 3, 4)


def test_sizes_compile_nothing_again():
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    model = weft.compile(model_of([node], [("x", F32, ["n", "m"]), ("sizes", I64, [2])], ["p", "q"]), device="cpu")
    assert not model.inputs[1].is_static
    assert model(X.reshape(6, 4), np.array([8, 3])).shape == (8, 3)
    assert model(X.reshape(6, 4), np.array([2, -1])).shape == (2, 12)


def test_constants_fix_an_input_and_such_a_program_is_saved(tmp_path):
    with pytest.raises(weft.UnsupportedError, match=r"(?s)E406.*'axes'.*constant"):
        weft.compile(reduction(), device="cpu").save(tmp_path / "m.weft")
    fixed = weft.compile(reduction(), device="cpu", constants={"axes": np.array([1])})
    assert [port.name for port in fixed.inputs] == ["x"]
    fixed.save(tmp_path / "m.weft")
    assert np.array_equal(weft.load(tmp_path / "m.weft")(X), X.sum(1, keepdims=True))


def test_static_inputs_that_a_run_computes_are_refused():
    nodes = [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0), helper.make_node("Cast", ["most"], ["axis"], to=I64),
             helper.make_node("CumSum", ["x", "axis"], ["y"])]
    with pytest.raises(weft.UnsupportedError, match="E159"):
        weft.compile(model_of(nodes, [("x", F32, [2, 3, 4])], [2, 3, 4]), device="cpu")


def test_a_fault_of_the_model_is_told_by_the_compile():
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["s"]), helper.make_node("Concat", ["x", "x"], ["c"], axis=9),
             helper.make_node("Add", ["s", "c"], ["y"])]
    with pytest.raises(weft.Error, match="E143"):
        weft.compile(model_of(nodes, [("x", F32, [2, 3, 4]), ("axes", I64, [1])], [2, 3, 4]), device="cpu")


def test_support_counts_them(tmp_path):
    (tmp_path / "m.onnx").write_bytes(reduction())
    assert [node["supported"] for node in weft.support(tmp_path / "m.onnx", device="cpu")["nodes"]] == [True]


def test_a_deadline_ends_the_compile_of_a_run():
    model = weft.compile(reduction(), device="cpu")
    with pytest.raises(weft.ResourceError, match="E403"):
        model(X, np.array([0]), deadline=1e-9)
    assert model(X, np.array([0])).shape == (1, 3, 4)


@DEVICES
def test_a_list_of_sizes_decides_by_its_length(device):
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    model = weft.compile(model_of([node], [("x", F32, ["n", "m"]), ("sizes", I64, ["k"])], None), device=device)
    assert model.inputs[1].is_static
    for sizes in [24], [2, 12], [3, -1], [8, 3], [2, 3, 4], [4, 3, 2], []:
        x = X.reshape(6, 4) if sizes else np.ones((1, 1), np.float32)
        assert np.array_equal(model(x, np.array(sizes, np.int64)), x.reshape(sizes))
    assert compiled_count(model) == 4


def lists(*names):
    return [(name, I64, [f"count_of_{name}"]) for name in names]


#: Each entry: an operator, its inputs besides x [n, m], and the runs, which list values for each of these inputs.
LISTS = [
    ("Slice", ["starts", "ends", "axes"], [([1], [4], [0]), ([0, 1], [5, -1], [1, 0]), ([0], [2], [-1])]),
    ("Slice", ["starts", "ends"], [([1], [4]), ([0, 1], [5, -1])]),
    ("Expand", ["sizes"], [([6, 4],), ([3, 6, 4],), ([1],)]),
    ("Tile", ["repeats"], [([2, 3],), ([1, 0],)]),
    ("Pad", ["pads"], [([1, 0, 2, 3],), ([0, -1, 0, 0],)]),
    ("Unsqueeze", ["axes"], [([0],), ([1, 3],), ([-1, 0, 2],)]),
]


@DEVICES
@pytest.mark.parametrize("op, names, runs", LISTS, ids=[f"{row[0]}-{len(row[1])}" for row in LISTS])
def test_lists_of_an_open_length(op, names, runs, device):
    node = helper.make_node(op, ["x", *names], ["y"])
    source = model_of([node], [("x", F32, ["n", "m"]), *lists(*names)], None)
    model, theirs = weft.compile(source, device=device), onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    for run in runs:
        feeds = {"x": X.reshape(6, 4)} | {name: np.array(values, np.int64) for name, values in zip(names, run, strict=True)}
        assert np.array_equal(model.run(feeds)["y"], theirs.run(None, feeds)[0]), run
