#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chain.py NODES OUT.onnx: a model that is one long chain of mixed nodes over f32[batch, 16].

Elementwise functions, products with weights, reductions, norms, views and concatenations alternate in a pattern that
repeats after some nodes, like the layers of a model. Every value stays finite.
"""
import argparse
import itertools

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WIDTH = 16


def weights():
    """Returns a few initialisers that all nodes share, because chains test the number of nodes, not the size of the
    file."""
    draw = np.random.default_rng(1)
    values = {
        "square": draw.standard_normal((WIDTH, WIDTH), np.float32) / 4,
        "wide": draw.standard_normal((WIDTH, 2 * WIDTH), np.float32) / 4,
        "row": draw.standard_normal(WIDTH, np.float32),
        "one": np.ones(WIDTH, np.float32),
        "turned": np.array([-1, 4, 4], np.int64),
        "flat": np.array([-1, WIDTH], np.int64),
        "halves": np.array([WIDTH, WIDTH], np.int64),
        "last": np.array([-1], np.int64),
        "order": np.arange(WIDTH - 1, -1, -1, dtype=np.int64),
    }
    return [numpy_helper.from_array(value, name) for name, value in values.items()]


class Chain:
    def __init__(self):
        self.nodes = []

    def add(self, op, *inputs, outputs=1, **attributes):
        """Appends a node; returns the name of its result, or the names of its results."""
        number = len(self.nodes)
        names = [f"v{number}_{k}" if outputs > 1 else f"v{number}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"n{number}", **attributes))
        return names if outputs > 1 else names[0]


def gated(chain, x):
    left, right = chain.add("Split", chain.add("MatMul", x, "wide"), "halves", outputs=2, axis=1)
    return chain.add("Mul", chain.add("Sigmoid", left), chain.add("Tanh", right))


def turned(chain, x):
    pieces = chain.add("Transpose", chain.add("Reshape", x, "turned"), perm=[0, 2, 1])
    return chain.add("Reshape", pieces, "flat")


def doubled(chain, x):
    both = chain.add("Concat", x, chain.add("Neg", x), axis=1)
    return chain.add("Split", both, "halves", outputs=2, axis=1)[1]


def centred(chain, x):
    return chain.add("Sub", x, chain.add("ReduceMean", x, "last"))


LINKS = [
    lambda chain, x: chain.add("Relu", chain.add("Add", x, "row")),
    lambda chain, x: chain.add("Tanh", chain.add("MatMul", x, "square")),
    lambda chain, x: chain.add("Gemm", x, "square", "row", transB=1),
    lambda chain, x: chain.add("Softmax", x, axis=-1),
    lambda chain, x: chain.add("LayerNormalization", x, "one", "row"),
    lambda chain, x: chain.add("Gather", x, "order", axis=1),
    lambda chain, x: chain.add("Mul", chain.add("Sin", x), chain.add("Cos", x)),
    gated, turned, doubled, centred,
]


def chain_model(count):
    chain, value = Chain(), "x"
    for link in itertools.cycle(LINKS):
        value = link(chain, value)
        if len(chain.nodes) >= count:
            break
    sizes = ["batch", WIDTH]
    graph = helper.make_graph(
        chain.nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, sizes)], weights())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("out")
    words = parser.parse_args()
    with open(words.out, "wb") as file:
        file.write(chain_model(words.count).SerializeToString())


if __name__ == "__main__":
    main()
