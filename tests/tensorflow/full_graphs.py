# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes frozen graphs of several operators, and TensorFlow's answers.
full_graphs.py FOLDER"""
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

rng = np.random.default_rng(5)
tf.random.set_seed(5)
FOLDER = Path(sys.argv[1])


def spec(*shape, dtype=tf.float32):
    return tf.TensorSpec(shape, dtype, "x")


def keep(name, function, signature, runs, lower=False):
    """Writes a frozen graph and the answers to `runs`; outputs have the names of their nodes."""
    frozen = convert_variables_to_constants_v2(tf.function(function).get_concrete_function(signature), lower_control_flow=lower)
    (FOLDER / f"{name}.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    kept = {}
    for number, x in enumerate(runs):
        kept[f"{number} in x"] = x
        for tensor, value in zip(frozen.outputs, frozen(tf.constant(x))):
            kept[f"{number} out {tensor.op.name}"] = value.numpy()
    np.savez(FOLDER / f"{name}.npz", **kept)


def floats(*shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


def grow(x):
    return tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: [v * 2.0 + 1.0], [x])[0]


def branch(x):
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.sin(x), lambda: x - 3.0)


@tf.function
def inner(x, y):
    return tf.matmul(x, y, transpose_b=True), tf.reduce_max(x)


def calls(x):
    product, most = inner(x, x)
    again, _ = inner(product, product)
    return again / most


def with_norms(model):
    """Replaces the identity norms by random ones, so that outputs depend on the input."""
    for variable in model.variables:
        if variable.path.split("/")[-1] in ("gamma", "beta", "moving_mean", "moving_variance"):
            low, high = (0.5, 1.5) if variable.path.endswith(("gamma", "variance")) else (-0.3, 0.3)
            variable.assign(rng.uniform(low, high, variable.shape).astype(np.float32))
    return model


def network():
    layers = tf.keras.layers
    x = layers.Input((None, None, 3), name="x")
    y = layers.Conv2D(8, 3, 2, "same", use_bias=False)(x)
    y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    z = layers.DepthwiseConv2D(3, padding="same")(y)
    y = layers.Activation("swish")(layers.add([y, layers.LayerNormalization()(z)]))
    y = layers.UpSampling2D(2, interpolation="bilinear")(layers.MaxPooling2D(3, 2, "same")(y))
    y = layers.Conv2DTranspose(4, 3, 2, "same")(layers.ZeroPadding2D(((0, 1), (1, 0)))(y))
    y = layers.Dense(5, activation="softmax")(layers.GlobalAveragePooling2D()(y))
    model = tf.keras.Model(x, y)
    return with_norms(model)


def faulty():
    """Writes graphs that Weft must refuse."""
    from tensorflow.core.framework import graph_pb2

    for name, nodes in {"cycle": [("a", "Relu", "b"), ("b", "Relu", "a"), ("y", "Relu", "b")], "twice": [("y", "Relu", "x"), ("y", "Relu", "x")],
                        "missing": [("y", "Relu", "z")], "no_operand": [("y", "If", None)], "unknown_rank": [("y", "Relu", "x")]}.items():
        graph = graph_pb2.GraphDef()
        x = graph.node.add(name="x", op="Placeholder")
        x.attr["dtype"].type = 1
        x.attr["shape"].shape.unknown_rank = name == "unknown_rank"
        for node, op, operand in nodes:
            graph.node.add(name=node, op=op, input=[operand] if operand else [])
        (FOLDER / f"{name}.pb").write_bytes(graph.SerializeToString())
    graph = graph_pb2.GraphDef()
    constant = graph.node.add(name="c", op="Const")
    constant.attr["dtype"].type = constant.attr["value"].tensor.dtype = 1
    for size in (1 << 20, 1 << 12):
        constant.attr["value"].tensor.tensor_shape.dim.add(size=size)
    constant.attr["value"].tensor.float_val.append(1.0)  # one value, which stands for 2^32 elements
    graph.node.add(name="y", op="Relu", input=["c"])
    (FOLDER / "repeated.pb").write_bytes(graph.SerializeToString())


def main():
    faulty()
    keep("while", grow, spec(None, 3), [np.abs(floats(2, 3)), np.full((1, 3), 90, np.float32)])
    keep("if", branch, spec(None, 3), [np.abs(floats(2, 3)), -np.abs(floats(4, 3))])
    keep("calls", calls, spec(None, 4), [floats(2, 4), floats(5, 4)])
    keep("network", network(), spec(None, 24, 32, 3), [floats(2, 24, 32, 3), floats(1, 24, 32, 3)])
    keep("switch_and_merge", branch, spec(None, 3), [np.abs(floats(2, 3)), -np.abs(floats(4, 3))], lower=True)
    keep("enter_and_exit", grow, spec(None, 3), [np.abs(floats(2, 3)), np.full((1, 3), 90, np.float32)], lower=True)
    for name in sys.argv[2:]:
        size = 64
        model = with_norms(getattr(tf.keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None))
        keep(name, lambda x, model=model: model(x, training=False), spec(None, size, size, 3), [floats(1, size, size, 3), floats(3, size, size, 3)])


main()
