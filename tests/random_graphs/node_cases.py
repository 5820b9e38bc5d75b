# SPDX-License-Identifier: Apache-2.0
"""Inserts nodes of ONNX's own operator cases into a drawing, so that every operator occurs with realistic attributes
and sizes. An operand is the case's own data, as an input or a constant, or is cut out of a value of the drawing."""

import collections
import functools
import sys
from pathlib import Path

import numpy as np
import onnx
from draw import FLOATS, MOST_ELEMENTS, Skip
from operators import BOUNDED, POSITIVE, STEPS

sys.path.append(str(Path(__file__).resolve().parents[1]))
import onnx_node_cases


def is_plain(array):
    return isinstance(array, np.ndarray) and array.size <= MOST_ELEMENTS and (array.dtype.kind in "iub" or array.dtype in FLOATS)


@functools.cache
def cases():
    """Returns {(domain, operator): [(node in bytes, first opset with this version, operands)]} of the cases with one
    numeric node."""
    found = collections.defaultdict(list)
    for case in onnx_node_cases.node_cases():
        graph = case.model.graph
        if len(graph.node) != 1 or "_expanded" in case.name or any(a.HasField("g") for a in graph.node[0].attribute):
            continue
        operands = [np.asarray(o) if isinstance(o, np.generic) else o for o in case.data_sets[0][0]]
        node = graph.node[0]
        opset = {o.domain: o.version for o in case.model.opset_import}.get(node.domain, 1)
        if not all(map(is_plain, operands)) or len(operands) != len(graph.input):
            continue
        since = onnx.defs.get_schema(node.op_type, opset, node.domain).since_version
        named = {port.name: operand for port, operand in zip(graph.input, operands)}
        found[node.domain, node.op_type].append((node.SerializeToString(), since, named))
    return dict(found)


def cut_out(d, shape, dtype):
    """Returns a tensor of this shape from an existing value: its first elements, repeated as often as needed."""
    count = int(np.prod(shape))
    x = d.pick(lambda v: v.dtype == dtype and v.plain.size > 0)
    x = d.add("Reshape", x, np.array([-1], np.int64), exact=True)
    if x.plain.size < count:
        x = d.add("Tile", x, np.array([-(-count // x.plain.size)], np.int64), exact=True)
    if x.plain.size > count:
        x = d.add("Slice", x, np.array([0], np.int64), np.array([count], np.int64), exact=True)
    return d.add("Reshape", x, np.array(shape, np.int64), exact=True)


def planted(d, array, is_first):
    if array.dtype in FLOATS and is_first and array.size and d.chance(0.4):
        try:
            return cut_out(d, array.shape, array.dtype)
        except Skip:
            pass
    # Numbers that decide a result's shape are constants in most models; for some operators they must be.
    share = 0 if array.size < 5 else 0.9 if array.dtype in FLOATS else 0.15
    return d.given(array) if d.chance(share) else d.weight(array)


def draw_case(d, domain, op):
    """Adds a node of one of the operator's cases, in the model's version of the operator set; returns its results."""
    fitting = cases().get((domain, op), [])
    if not domain:
        version = onnx.defs.get_schema(op, d.opset, "").since_version if onnx.defs.has(op, d.opset, "") else 0
        fitting = [case for case in fitting if case[1] == version]
    if not fitting:
        raise Skip
    data, _, named = d.random.choice(fitting)
    node = onnx.NodeProto.FromString(data)
    values = {name: planted(d, array, name == node.input[0]) for name, array in named.items()}
    for index, name in enumerate(node.input):
        node.input[index] = values[name].name if name else ""
    names = d.fresh(len(node.output))
    for index, name in enumerate(node.output):
        node.output[index] = names[index] if name else ""
    results = d.place(node, list(values.values()), exact=False)
    is_steep = op in STEPS | BOUNDED | POSITIVE or any(r.dtype.kind in "iub" for r in results)
    if is_steep and not all(v.exact or v in d.inputs + d.initializers for v in values.values()):
        raise Skip  # an earlier rounding might cross a discontinuity, or leave the function's domain
    return results
