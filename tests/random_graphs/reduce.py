#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reduce.py MODEL.onnx OUT.onnx [--device cpu]: the smallest part of a model that still fails.

A model fails when Weft crashes on it, answers with a bug of its own, or differs from onnx's reference evaluator. Values of the
reference become inputs with an initializer, so the nodes before them go; then nodes behind go, one by one. Sizes named n7 are 7.
"""
import argparse
import re
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from run import Worker

TOLERANCE = 1e-3


def fixed_size(dim):
    """A size that is a number, or a name that ends in one."""
    if dim.HasField("dim_value"):
        return dim.dim_value
    digits = re.search(r"\d+$", dim.dim_param)
    return int(digits.group()) if digits else 2


def inputs_of(model, seed=1):
    """Small numbers for every input."""
    draw, made = np.random.default_rng(seed), {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [fixed_size(dim) for dim in tensor.shape.dim]
        numbers = draw.integers(-8, 9, shape) / 4
        made[value.name] = np.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return made


def every_value(model, feeds):
    """Name -> what the reference computes, for every result of every node."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    for node in whole.graph.node:
        whole.graph.output.extend(helper.make_tensor_value_info(name, 1, None) for name in node.output if name)
    names = [value.name for value in whole.graph.output]
    return dict(zip(names, ReferenceEvaluator(whole).run(None, feeds)))


def part(model, nodes, values):
    """The model of these nodes; what they read and no longer make is an initializer that is an input too."""
    made = {name for node in nodes for name in node.output}
    read = {name for node in nodes for name in node.input if name}
    ends = [name for node in nodes for name in node.output if name and name not in read]
    kept = [i for i in model.graph.initializer if i.name in read]
    outside = read - made - {i.name for i in kept}
    weights = [numpy_helper.from_array(np.asarray(values[name]), name) for name in sorted(outside)]
    inputs = [helper.make_tensor_value_info(w.name, w.data_type, list(w.dims)) for w in weights]
    outputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.asarray(values[n]).dtype), None)
               for n in ends]  # fmt: skip
    graph = helper.make_graph(nodes, "reduced", inputs, outputs, [*kept, *weights])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def fails_here(model, device):
    """Why the model fails, empty if it does not; runs in a process of its own."""
    import weft

    model = onnx.load_from_string(model)
    feeds = {value.name: numpy_helper.to_array(next(i for i in model.graph.initializer if i.name == value.name))
             for value in model.graph.input}  # fmt: skip
    wanted = ReferenceEvaluator(model).run(None, feeds)
    try:
        program = weft.compile(model.SerializeToString(), device=device)
        answers = program.run(feeds)
    except weft.InternalError as error:
        return str(error)
    except weft.Error:  # a refusal is no failure
        return ""
    for value, want in zip(model.graph.output, wanted):
        got, want = np.asarray(answers[value.name], np.float64), np.asarray(want, np.float64)
        if got.shape != want.shape or not np.allclose(got, want, TOLERANCE, TOLERANCE, equal_nan=True):
            return f"{value.name} differs"
    return ""


class Reducer:
    def __init__(self, model, device):
        self.model = model
        self.worker = Worker(fails_here, device)
        self.values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        feeds = inputs_of(model)
        self.values |= feeds | every_value(model, feeds)

    def why(self, nodes):
        """Why the part fails; empty if it does not."""
        return self.worker.ask(part(self.model, nodes, self.values).SerializeToString()) if nodes else ""

    def run(self):
        """Drops runs of nodes, half of them at first, as long as the rest fails."""
        nodes = list(self.model.graph.node)
        if not self.why(nodes):
            raise SystemExit("the model does not fail")
        length = len(nodes) // 2
        while length:
            at = 0
            while at < len(nodes):
                rest = nodes[:at] + nodes[at + length :]
                if self.why(rest):
                    nodes = rest
                else:
                    at += length
            length //= 2
        return part(self.model, nodes, self.values), self.why(nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    words = parser.parse_args()
    model, why = Reducer(onnx.load(words.model), words.device).run()
    words.out.write_bytes(model.SerializeToString())
    print(onnx.printer.to_text(model))
    print(why, file=sys.stderr)


if __name__ == "__main__":
    main()
