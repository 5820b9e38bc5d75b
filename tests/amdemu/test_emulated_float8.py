# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit floats on emulated AMD GPUs equal those of ref. Chips with a matrix unit for the type use it;
other chips multiply f16."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import emulated
from places import IS_FULL

OCP, FNUZ = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2), (TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ)
NAMES = dict(zip((*OCP, *FNUZ), ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"), strict=True))
UNITS = {"gfx942": FNUZ, "gfx1201": OCP, "gfx1100": ()}
ALL = [(chip, kind, precision) for chip in emulated.CHIPS for kind in NAMES for precision in ("f32", "f16")]
SOME = [(chip, kind, "f32") for chip in emulated.CHIPS for kind in UNITS[chip] or OCP[:1]] + [("gfx942", FNUZ[0], "f16"), ("gfx1201", FNUZ[0], "f16")]
CASES = ALL if IS_FULL else SOME


class Graph:
    """A graph of products with quantised operands, as `weft quantize` writes it."""

    def __init__(self, kind):
        self.kind, self.nodes, self.weights, self.draw = kind, [], [], np.random.default_rng(8)
        self.weights.append(onnx.numpy_helper.from_array(np.float32(0.05), "scale"))
        self.weights.append(helper.make_tensor("zero", kind, [], [0.0]))

    def node(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def rounded(self, x):
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, "scale", "zero"), "scale", "zero")

    def weight(self, axis, *dims):
        name = f"w{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, self.kind, dims, self.draw.standard_normal(np.prod(dims)) * 8))
        scales = self.draw.uniform(0.01, 0.1, dims[axis]).astype(np.float32)
        self.weights.append(onnx.numpy_helper.from_array(scales, f"{name}_scale"))
        return self.node("DequantizeLinear", name, f"{name}_scale", axis=axis)

    def save(self, path, inputs, outputs):
        ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in values] for values in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, "g", *ports, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)


def write(path, kind):
    """Makes a product with a scale for each column, a product of one row, a convolution, and a 1x1 convolution of
    its result."""
    g = Graph(kind)
    many = g.node("MatMul", g.rounded("x"), g.weight(1, 72, 40))
    row = g.node("MatMul", g.rounded("row"), g.weight(1, 64, 24))
    conv = g.node("Relu", g.node("Conv", g.rounded("image"), g.weight(0, 16, 3, 3, 3), pads=[1, 1, 1, 1]))
    again = g.node("Conv", g.rounded(conv), g.weight(0, 8, 16, 1, 1))
    g.save(path, [("x", [2, 33, 72]), ("row", [1, 64]), ("image", [1, 3, 7, 9])],
           [(many, [2, 33, 40]), (row, [1, 24]), (again, [1, 8, 7, 9])])


@pytest.mark.rotates(2)
@pytest.mark.parametrize("chip,kind,precision", CASES, ids=[f"{chip}-{NAMES[kind]}-{precision}" for chip, kind, precision in CASES])
def test_products_of_8_bit_floats(chip, kind, precision, tmp_path):
    write(tmp_path / "model.onnx", kind)
    limit = [] if precision == "f32" else ["--norm", "2e-2"]  # rounding to f16 may change the quantised number
    done = emulated.run(chip, "weft", "verify", tmp_path / "model.onnx", "--device", "amd:0", "--precision", precision, *limit)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = emulated.run(chip, "weft", "explain", tmp_path / "model.onnx", "--device", "amd:0", "--precision", precision).stdout
    type = NAMES[kind] if kind in UNITS[chip] else "f16"
    assert f"dot_{type}" in steps and f"conv_{type}" in steps, steps
