# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.preview.training's Gradient: the results of ref and cpu equal finite differences of the graph itself."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from test_microsoft import weft

TRAINING = "ai.onnx.preview.training"


def model_of(nodes, inputs, constants, extra, outputs):
    infos = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, value.shape) for name, value in inputs.items()]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes + extra, "graph", infos, [helper.make_empty_tensor_value_info(o) for o in outputs], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)], ir_version=9)


def differences(evaluate, inputs, name, step=1e-6):
    """Returns central differences of the sum of y with respect to each element of the input `name`."""
    slopes = np.zeros_like(inputs[name])
    for at in np.ndindex(slopes.shape):
        ends = []
        for sign in 1, -1:
            moved = {key: value.copy() for key, value in inputs.items()}
            moved[name][at] += sign * step
            ends.append(np.sum(evaluate(moved)))
        slopes[at] = (ends[0] - ends[1]) / (2 * step)
    return slopes


def check(nodes, inputs, constants=None, y="y", xs=None):
    xs = xs or list(inputs)
    gradient = helper.make_node("Gradient", xs, [f"d_{x}" for x in xs], domain=TRAINING, xs=xs, y=y)
    whole = model_of(nodes, inputs, constants or {}, [gradient], [y] + [f"d_{x}" for x in xs])
    plain = ReferenceEvaluator(model_of(nodes, inputs, constants or {}, [], [y]))
    for device in "ref", "cpu":
        answers = weft.compile(whole.SerializeToString(), device=device).run(inputs)
        for x in xs:
            wanted = differences(lambda feed: plain.run(None, feed)[0], inputs, x)
            np.testing.assert_allclose(answers[f"d_{x}"], wanted, 1e-6, 1e-6, err_msg=f"{x} on {device}")


def numbers(*shape):
    return np.random.default_rng(len(shape)).uniform(0.3, 1.2, shape)


UNARY = ["Neg", "Abs", "Reciprocal", "Sqrt", "Exp", "Log", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Tanh", "Sigmoid",
         "Relu", "Softplus", "Floor"]


@pytest.mark.parametrize("op", UNARY)
def test_functions(op):
    check([helper.make_node(op, ["x"], ["y"])], {"x": numbers(5) - (0.6 if op in ("Abs", "Relu", "Sin") else 0)})


def test_erf():
    """The gradient of Erf matches its formula: onnx's reference computes Erf in f32, which is too inexact for finite
    differences."""
    x = numbers(5) - 0.6
    gradient = helper.make_node("Gradient", ["x"], ["d"], domain=TRAINING, xs=["x"], y="y")
    model = model_of([helper.make_node("Erf", ["x"], ["y"])], {"x": x}, {}, [gradient], ["d"]).SerializeToString()
    for device in "ref", "cpu":
        np.testing.assert_allclose(weft.compile(model, device=device).run({"x": x})["d"], 2 / np.pi**0.5 * np.exp(-x * x))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow", "Min", "Max"])
def test_of_two_that_are_broadcast(op):
    check([helper.make_node(op, ["a", "b"], ["y"])], {"a": numbers(2, 3), "b": numbers(3) + 0.01})


def test_a_layer_with_softmax():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]),
             helper.make_node("Transpose", ["s"], ["t"], perm=[1, 0]), helper.make_node("Softmax", ["t"], ["m"], axis=0),
             helper.make_node("Slice", ["m", "one", "three", "zero"], ["part"]), helper.make_node("Concat", ["part", "t"], ["c"], axis=0),
             helper.make_node("Mul", ["c", "c"], ["q"]), helper.make_node("ReduceMean", ["q", "zero"], ["r"], keepdims=0),
             helper.make_node("Reshape", ["r", "row"], ["y"])]
    constants = {"one": np.array([1]), "three": np.array([3]), "zero": np.array([0]), "row": np.array([1, -1])}
    check(nodes, {"x": numbers(2, 3), "w": numbers(3, 4), "b": numbers(4)}, constants)


def test_values_in_the_middle_and_other_values_in_their_place():
    """The gradient with respect to an intermediate value is evaluated at the value given as an input, not at the value
    that the graph computes."""
    nodes = [helper.make_node("Mul", ["x", "x"], ["m"]), helper.make_node("Mul", ["m", "m"], ["y"]),
             helper.make_node("Gradient", ["z"], ["d"], domain=TRAINING, xs=["m"], y="y")]
    inputs = {"x": numbers(3), "z": numbers(3) + 2}
    model = model_of(nodes, inputs, {}, [], ["d"]).SerializeToString()
    for device in "ref", "cpu":
        np.testing.assert_allclose(weft.compile(model, device=device).run(inputs)["d"], 2 * inputs["z"])


def test_operators_without_a_rule_are_refused_by_name():
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    with pytest.raises(weft.UnsupportedError, match="through scan of node 0"):
        check(nodes, {"x": numbers(3)}, {"axis": np.array(0)})
