# SPDX-License-Identifier: Apache-2.0
"""Operands of an element type that an operator does not support: integers, booleans or strings in place of floats. The
inputs of ONNX's own node cases become constants, so that constant folding is tested too. Each model is read or
refused, without a crash or an internal error."""
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (0, 1)]
from harness import failures
from onnx_node_cases import node_cases

KINDS = {"int32": np.int32, "bool": bool, "string": object}


def first_cases():
    """Returns the first case for each list of operators that the nodes of a graph have."""
    found = {}
    for case in node_cases():
        found.setdefault(tuple(node.op_type for node in case.model.graph.node), case)
    return found.values()


def turned(x, kind):
    if kind == "string":
        return np.full(x.shape, "a", object)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(x.astype(np.float64)).astype(KINDS[kind])


def model_of(case, kind):
    """Returns the model with its numeric inputs as constants, floats converted to `kind`; None if it has no
    float input."""
    model, any_turned = onnx.ModelProto(), False
    model.CopyFrom(case.model)
    graph = model.graph
    for port, x in zip(list(graph.input), case.data_sets[0][0]):
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            graph.initializer.append(numpy_helper.from_array(turned(x, kind), port.name))
            graph.input.remove(port)
            any_turned = True
        elif isinstance(x, np.ndarray) and x.dtype.kind in "iub":
            graph.initializer.append(numpy_helper.from_array(x, port.name))
            graph.input.remove(port)
    return model.SerializeToString() if any_turned else None


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind, tmp_path):
    models = {case.name: model_of(case, kind) for case in first_cases()}
    paths = [tmp_path / f"{name}.onnx" for name, model in models.items() if model]
    for path in paths:
        path.write_bytes(models[path.stem])
    wrong = failures("weft-mutants", "intact", paths, 0, len(paths))
    assert len(paths) > 200 and wrong == [], [path.name for path in paths]
