# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes each case of full_cases.py as a frozen graph, once with fixed and
once with open sizes, and TensorFlow's answers; with a seed, the cases that random_cases.py draws.
full_models.py FOLDER [SEED]"""
import inspect
import json
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops  # of XlaDynamicUpdateSlice, which raw_ops lacks

sys.path.insert(0, str(Path(__file__).parent))
import random_cases
from full_cases import CASES, open_dims
from lite_cases import Value

TYPES = ("DstT", "type", "out_type", "output_type", "out_idx", "T", "Tout")


def build(case, is_open):
    """Returns the graph, its placeholders with their values, and its results."""
    graph, feeds = tf.Graph(), {}
    with graph.as_default():
        def operand(value, number):
            if value.constant:
                return tf.constant(value.array)
            shape = open_dims(case, number, value) if is_open else value.array.shape
            if value.array.dtype.kind == "c":
                halves = [Value(value.array.real), Value(value.array.imag)]
                return tf.complex(*(operand(half, number) for half in halves))
            kind = tf.string if value.array.dtype.kind == "U" else tf.as_dtype(value.array.dtype)
            steps = case.fields.get("T") if case.operator == "Dequantize" and number == 0 else None
            x = tf.compat.v1.placeholder(steps or kind, shape, f"x{len(feeds)}")
            feeds[x] = value.array.astype(tf.as_dtype(steps).as_numpy_dtype) if steps else value.array
            return x

        operands = [[operand(v, n) for v in i] if isinstance(i, list) else operand(i, n) for n, i in enumerate(case.inputs)]
        if case.operator.startswith("_"):
            return graph, feeds, [joined(graph, case, operands)]
        call = getattr(gen_xla_ops if case.operator.startswith("Xla") else tf.raw_ops, case.operator)
        names = list(inspect.signature(call).parameters)[:len(operands)]
        attributes = {k: tf.as_dtype(v) if isinstance(v, str) and k in TYPES else v for k, v in case.fields.items()}
        if case.operator == "Dequantize":
            del attributes["T"]  # implied by the operand
        found = call(**dict(zip(names, operands)), **attributes, name="y")
        results = [t for t in found if isinstance(t, tf.Tensor)] if isinstance(found, (list, tuple)) else [found]
        results = [part for t in results for part in ([tf.math.real(t), tf.math.imag(t)] if t.dtype.is_complex else [t])]
    return graph, feeds, results


def joined(graph, case, operands):
    """Builds a node that only TensorFlow's optimiser writes."""
    node = tf.compat.v1.NodeDef(op=case.operator, name="y")
    flat = [x for operand in operands for x in (operand if isinstance(operand, list) else [operand])]
    node.input.extend(x.name.removesuffix(":0") for x in flat)
    kind, count = tf.float32.as_datatype_enum, len(flat) - 2
    node.attr["T"].type, node.attr["num_args"].i = kind, count
    if case.operator == "_FusedConv2D":
        node.attr["TArgs"].list.type.extend([kind] * count)
    for key, value in case.fields.items():
        attribute = node.attr[key]
        if isinstance(value, list) and isinstance(value[0], str):
            attribute.list.s.extend(v.encode() for v in value)
        elif isinstance(value, list):
            attribute.list.i.extend(value)
        elif isinstance(value, str):
            attribute.s = value.encode()
        elif isinstance(value, bool):
            attribute.b = value
        else:
            attribute.f = value
    with graph.as_default():
        return tf.import_graph_def(tf.compat.v1.GraphDef(node=[node]), {x.name: x for x in flat}, ["y:0"], name="")[0]


def main(folder, seed=None):
    index = {}
    for case in random_cases.drawn(int(seed)) if seed else CASES:
        try:
            graph, feeds, results = build(case, False)
            (folder / f"{case.name}.pb").write_bytes(graph.as_graph_def().SerializeToString())
            if case.open_sizes:
                (folder / f"{case.name}-open.pb").write_bytes(build(case, True)[0].as_graph_def().SerializeToString())
            with tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)) as session:
                answers = session.run(results, feeds)
            answers = [np.vectorize(bytes.decode, otypes=[str])(y) if y.dtype.kind in "OS" else y for y in map(np.asarray, answers)]
            plain = lambda x: x.view(x.dtype[0]) if x.dtype.fields else x  # plain integers in place of quantised types
            arrays = {f"x{i}": plain(x) for i, x in enumerate(feeds.values())} | {f"y{i}": plain(y) for i, y in enumerate(answers)}
            np.savez(folder / f"{case.name}.npz", **arrays)
            index[case.name] = ""
        except (ValueError, TypeError, tf.errors.OpError) as error:
            index[case.name] = str(error)[:300]
    (folder / "index.json").write_text(json.dumps(index))


main(Path(sys.argv[1]), *sys.argv[2:])
