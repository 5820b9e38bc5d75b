# SPDX-License-Identifier: Apache-2.0
"""Quantised models on the CPU: ONNX's own cases, and a network whose every answer is exact."""

import numpy as np
import weft
from onnx import TensorProto, helper, numpy_helper
import onnx_node_cases

OPERATORS = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger",
    "MatMulInteger",
}
# Errors for element types that the cpu target does not support.
REFUSED = ("E131", "E402")
LEAST_RIGHT = 20


def arrays(values):
    return [numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x) for x in values]


def node_cases():
    """Returns the cases of OPERATORS that use only numpy's own types; test_narrow.py tests other types."""
    cases = [case for case in onnx_node_cases.node_cases() if case.model.graph.node[0].op_type in OPERATORS]
    return [case for case in cases if all(x.dtype.num < 256 for part in case.data_sets[0] for x in arrays(part))]


def answer(case):
    """Returns the outputs, or None if the case was refused."""
    inputs = arrays(case.data_sets[0][0])
    try:
        model = weft.compile(case.model.SerializeToString(), device="cpu", threads=1)
        return model.run(dict(zip((i.name for i in case.model.graph.input), inputs)))
    except weft.Error as error:
        assert any(code in str(error) for code in REFUSED), f"{case.name}: {error}"
        return None


def test_node_cases():
    right = 0
    for case in node_cases():
        outputs = answer(case)
        if outputs is None:
            continue
        for output, wanted in zip(case.model.graph.output, arrays(case.data_sets[0][1])):
            got = outputs[output.name]
            assert got.dtype == wanted.dtype, case.name
            np.testing.assert_allclose(got, wanted, rtol=case.rtol, atol=case.atol, err_msg=case.name)
        right += 1
    assert right >= LEAST_RIGHT, right


class Network:
    """A network of convolutions between QuantizeLinear and DequantizeLinear, as onnxruntime's tool writes it."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def constant(self, name, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind, inputs, **attributes):
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def quantised(self, x, scale, zero):
        """Adds a QuantizeLinear and a DequantizeLinear after `x`; returns the name of the result."""
        parameters = [self.constant(f"s{len(self.weights)}", np.float32(scale)),
                      self.constant(f"z{len(self.weights)}", np.uint8(zero))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *parameters]), *parameters])

    def dequantised(self, name, values, scale, **attributes):
        parts = [self.constant(name, values), self.constant(f"{name}_scale", np.float32(scale))]
        return self.node("DequantizeLinear", parts, **attributes)


def steps(real, scale, zero):
    """Returns `real` (in double precision) quantised with this scale, minus the zero point."""
    return np.clip(np.rint(real / np.float64(np.float32(scale))), -zero, 255 - zero)


def convolve(x, w):
    """Computes a convolution of 3 x 3 with padding 1 in double precision, which holds these sums of integers
    exactly."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def test_every_answer_is_exact():
    """Four layers, two of them with a residual sum: all 80,000 quantised values of the output are exactly right."""
    net, channels, depth = Network(3), 16, 4
    image = net.random.normal(size=(2, channels, 50, 50)).astype(np.float32)
    value, scale, zero = net.quantised("image", 0.0234, 117), np.float32(0.0234), 117
    exact = steps(image / scale, 1, zero)  # f32, as ONNX divides
    for layer in range(depth):
        w = net.random.integers(-127, 128, (channels, channels, 3, 3)).astype(np.int8)
        bias = net.random.integers(-20000, 20000, channels).astype(np.int32)
        w_scale = net.random.uniform(1e-3, 2e-3, channels).astype(np.float32)
        bias_scale = (scale * w_scale).astype(np.float32)
        weights = net.dequantised(f"w{layer}", w, w_scale, axis=0)
        y = net.node("Conv", [value, weights, net.dequantised(f"b{layer}", bias, bias_scale, axis=0)], pads=[1, 1, 1, 1])
        real = convolve(exact, w) * (np.float64(scale) * w_scale.astype(np.float64)).reshape(-1, 1, 1)
        real += (bias * bias_scale.astype(np.float64)).reshape(-1, 1, 1)
        if layer % 2:
            y, real = net.node("Add", [y, value]), real + exact * np.float64(scale)
        scale, zero = np.float32(real.std() / 40), (0 if layer % 2 else 130)
        exact = steps(real, scale, zero)
        value = net.quantised(y, scale, zero)
    graph = helper.make_graph(
        [*net.nodes, helper.make_node("Identity", [value], ["y"])], "steps",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", channels, 50, 50])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    for threads in (1, 2):
        got = weft.compile(model.SerializeToString(), device="cpu", threads=threads)(image)
        assert np.array_equal(np.rint(got / scale), exact)
