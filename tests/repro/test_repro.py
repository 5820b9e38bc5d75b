# SPDX-License-Identifier: Apache-2.0
"""Regression tests of bugs found by generated models: ref and cpu agree with onnx's reference evaluator,
or with onnxruntime on its own operators.

A bug is a model in ONNX's text form (`*.txt`), or a folder that `weft reduce` wrote: model.onnx and input_N.pb.
"""

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "robustness")]

from limits import BUILD

sys.path.insert(0, str(BUILD / "python"))


def fixed_size(dim):
    """Returns the size if it is a number, otherwise the number at the end of its name, or 2 if there is none."""
    if dim.HasField("dim_value"):
        return dim.dim_value
    digits = re.search(r"\d+$", dim.dim_param)
    return int(digits.group()) if digits else 2


def inputs_of(model, seed=1):
    """Returns small random numbers for every input."""
    draw, made = np.random.default_rng(seed), {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [fixed_size(dim) for dim in tensor.shape.dim]
        numbers = draw.integers(-8, 9, shape) / 4
        made[value.name] = np.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return made


def read(path):
    """Returns the model and its inputs; a text file begins with the original error."""
    if path.is_dir():
        model = onnx.load(path / "model.onnx")
        files = [path / f"input_{i}.pb" for i in range(len(model.graph.input))]
        values = [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]
        return model, {port.name: value for port, value in zip(model.graph.input, values)}
    lines = path.read_text().splitlines()
    model = onnx.parser.parse_model("\n".join(line for line in lines if not line.startswith("#")))
    return model, inputs_of(model)


def judged(model, feeds):
    if all(opset.domain != "com.microsoft" for opset in model.opset_import):
        return ReferenceEvaluator(model).run(None, feeds)
    import onnxruntime

    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("path", sorted([*HERE.glob("*.txt"), *(p.parent for p in HERE.glob("*/model.onnx"))]), ids=lambda path: path.stem)
def test_repro(path, device):
    import weft

    model, feeds = read(path)
    answers = weft.compile(model.SerializeToString(), device=device).run(feeds)
    for value, wanted in zip(model.graph.output, judged(model, feeds)):
        np.testing.assert_allclose(answers[value.name], wanted, rtol=1e-4, atol=1e-4)
