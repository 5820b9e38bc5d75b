# SPDX-License-Identifier: Apache-2.0
"""ONNX's simple, converted and real models on the CPU: every answer is right. A plain run takes a
third of them, a different third each day."""
import pathlib

import numpy as np
import onnx
from onnx import numpy_helper
from places import todays
from suite_cases import Case, case_on_disk, faults, judge, named

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data"
CASES = 149


def light_case(file):
    """Returns a network whose weights are computed by nodes, with the input that ONNX's own runner gives it: numbers
    from 0 to 1 in equal steps."""
    model = onnx.load(file)
    initial = {tensor.name for tensor in model.graph.initializer}
    ports = [port for port in model.graph.input if port.name not in initial]
    shapes = [[dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in ports]
    inputs = [(np.arange(np.prod(shape)) / np.prod(shape)).reshape(shape).astype(np.float32) for shape in shapes]
    output = onnx.TensorProto.FromString(file.with_name(file.stem + "_output_0.pb").read_bytes())
    return Case(file.stem, model, named(ports, inputs), named(model.graph.output, [numpy_helper.to_array(output)]))


def test_models():
    kinds = "simple", "pytorch-converted", "pytorch-operator"
    cases = [case_on_disk(file.parent) for kind in kinds for file in sorted((DATA / kind).glob("*/model.onnx"))]
    cases += [light_case(file) for file in sorted((DATA / "light").glob("*.onnx"))]
    assert len(cases) == CASES
    assert not faults({case.name: judge(case, "cpu") for case in todays(cases, 3)})
