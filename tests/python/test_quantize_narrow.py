# SPDX-License-Identifier: Apache-2.0
"""Quantised models whose inputs in 16 bits are rounded as coarsely as they vary."""
import numpy as np
import pytest
from onnx import TensorProto, helper
from test_quantize import error, info, model_of, narrowed, peer, quantized, rng


@pytest.mark.parametrize("to", ["fp8", "int4"])
@pytest.mark.parametrize("spread", [2, 0.5, 0.05, 0.01])
def test_means_of_16_bits_that_exceed_their_spread(tmp_path, to, spread):
    """The squares of few rows, minus those of their mean, are rounded to an indefinite matrix, which GPTQ must not invert as it is."""
    weights = {"w1": rng(1).standard_normal((16, 64)) * spread / 4, "w2": rng(2).standard_normal((64, 32)) / 8,
               "w3": rng(3).standard_normal((32, 32)) / 6, "w4": rng(4).standard_normal((32, 5)) / 6}
    steps = [("MatMul", ["x", "w1"], "a"), ("Sigmoid", ["a"], "b"), ("MatMul", ["b", "w2"], "c"), ("MatMul", ["c", "w3"], "d"),
             ("MatMul", ["d", "w4"], "y")]
    nodes = [helper.make_node(op, given, [made], made) for op, given, made in steps]
    model = narrowed(model_of(nodes, [info("x", "n", 16)], [info("y", "n", 5)], weights), TensorProto.FLOAT16)
    data = [rng(i).standard_normal((3, 16)).astype(np.float16) for i in range(8)]
    out, report = quantized(tmp_path, model, data, to=to)
    there, right = (peer(tmp_path / name, np.concatenate(data)).astype("f") for name in ("out.onnx", "model.onnx"))
    assert report["quantised"] >= 2 and error(there, right) < 0.2, report["loss"]
