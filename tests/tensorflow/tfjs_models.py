# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes graph models of TensorFlow.js as frozen graphs, and TensorFlow's
answers to a picture. Graph models are GraphDefs in JSON with separate weight files. tfjs_models.py OUT FOLDER
PICTURE.npy NAME...

TensorFlow.js fuses products with the operators that follow. Weft reads the fused nodes, but with Prelu split off.
TensorFlow gets a graph without fused nodes, because its kernels for CPUs lack some fused forms."""
import json
import os
import sys
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}  # oneDNN's kernels crash in two of the models
import numpy as np
import tensorflow as tf
from google.protobuf import json_format

PRODUCTS = {"_FusedConv2D": "Conv2D", "_FusedDepthwiseConv2dNative": "DepthwiseConv2dNative", "_FusedMatMul": "MatMul"}
OPEN = {"faceboxes": (192, 160), "handtrack": (128, 160), "movenet-multipose": (160, 192), "rvm": (128, 160)}  # height, width
RATIO = 0.5  # rvm's downsample_ratio
NO_STATE = (1, 1, 1, 1)  # rvm's state before the first picture


def weights_of(folder, manifest):
    found = {}
    for group in manifest:
        data = b"".join((folder / path).read_bytes() for path in group["paths"])
        at = 0
        for weight in group["weights"]:
            steps = weight.get("quantization")
            stored = np.dtype(steps["dtype"] if steps else weight["dtype"])
            count = int(np.prod(weight["shape"]))
            x = np.frombuffer(data, stored, count, at)
            at += count * stored.itemsize
            if steps and "scale" in steps:
                x = x * np.float32(steps["scale"]) + np.float32(steps["min"])
            found[weight["name"]] = x.astype(weight["dtype"]).reshape(weight["shape"])
    return found


def read(path):
    model = json.loads(path.read_text())
    for node in model["modelTopology"]["node"]:
        if node["op"] == "FusedDepthwiseConv2dNative":  # as TensorFlow.js spells it
            node["op"] = "_" + node["op"]
    graph = json_format.ParseDict(model["modelTopology"], tf.compat.v1.GraphDef(), ignore_unknown_fields=True)
    weights = weights_of(path.parent, model["weightsManifest"])
    for node in graph.node:
        if node.op == "Const":
            kind = tf.as_dtype(node.attr["dtype"].type)  # TensorFlow.js stores 64 bits as 32
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(weights[node.name], kind))
    signature = model.get("signature") or model["userDefinedMetadata"]["signature"]
    outputs = [value["name"] for value in signature["outputs"].values()]
    return graph, sorted(name.removesuffix(":0") for name in outputs)


def add(graph, op, name, inputs, **types):
    node = graph.node.add(op=op, name=name, input=inputs)
    for key, value in types.items():
        node.attr[key].CopyFrom(value)
    return node


def add_prelu(graph, name, x, slope):
    """Adds Prelu, which TensorFlow lacks, as max(x, 0) + slope * min(x, 0)."""
    kind = tf.compat.v1.AttrValue(type=1)
    zero = add(graph, "Const", name + "/zero", [], dtype=kind)
    zero.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.float32(0)))
    for op, end, inputs in [("Maximum", "/above", [x, zero.name]), ("Minimum", "/below", [x, zero.name]), ("Mul", "/scaled", [name + "/below", slope]),
                            ("AddV2", "", [name + "/above", name + "/scaled"])]:
        add(graph, op, name + end, inputs, T=kind)


def without_prelu(graph):
    made = tf.compat.v1.GraphDef(versions=graph.versions)
    for node in graph.node:
        steps = node.attr["fused_ops"].list.s if node.op in PRODUCTS else []
        if node.op == "Prelu":
            add_prelu(made, node.name, *node.input)
        elif b"Prelu" in steps:  # Prelu is always the last step
            product = made.node.add()
            product.CopyFrom(node)
            product.name = node.name + "/product"
            slope = product.input.pop()
            assert product.attr["fused_ops"].list.s.pop() == b"Prelu"
            product.attr["num_args"].i = len(product.input) - 2
            add_prelu(made, node.name, product.name, slope)
        else:
            made.node.add().CopyFrom(node)
    return made


def apart(graph):
    """Splits fused products into separate nodes."""
    made = tf.compat.v1.GraphDef(versions=graph.versions)
    kind = tf.compat.v1.AttrValue(type=1)
    for node in graph.node:
        if node.op not in PRODUCTS:
            made.node.add().CopyFrom(node)
            continue
        steps = [step.decode() for step in node.attr["fused_ops"].list.s]
        names = [f"{node.name}/{i}" for i in range(len(steps))] + [node.name]
        product = add(made, PRODUCTS[node.op], names[0], node.input[:2], **{k: node.attr[k] for k in node.attr if k in (
            "T", "strides", "padding", "explicit_paddings", "data_format", "dilations", "transpose_a", "transpose_b")})
        assert product.name != node.name
        operands = list(node.input[2:])
        for step, source, name in zip(steps, names, names[1:]):
            inputs = [source, operands.pop(0)] if step == "BiasAdd" else [source]
            made_step = add(made, step, name, inputs, T=kind)
            if step == "LeakyRelu":
                made_step.attr["alpha"].f = node.attr["leakyrelu_alpha"].f
        assert not operands, (node.name, steps)
    return made


def shape_of(name, node, batch):
    shape = node.attr["shape"].shape
    dims = [d.size for d in shape.dim]
    if node.name in ("r1i", "r2i", "r3i", "r4i"):
        return NO_STATE
    height, width = OPEN.get(name, (None, None))
    return [d if d > 0 else batch if axis == 0 else (height, width)[axis - 1] for axis, d in enumerate(dims)]


def value_of(name, node, batch, picture):
    """Returns the picture, resized and converted as this input of the model expects, or rvm's constants for its other
    inputs. The second picture of a batch is flipped."""
    dtype = tf.as_dtype(node.attr["dtype"].type).as_numpy_dtype
    if node.name == "downsample_ratio":
        return np.array(RATIO, dtype)
    if node.name in ("r1i", "r2i", "r3i", "r4i"):
        return np.zeros(NO_STATE, dtype)
    shape = shape_of(name, node, batch)
    is_first = shape[1] == 3  # the channels come first
    height, width = shape[2:] if is_first else shape[1:3]
    rows, columns = (np.arange(size) * picture.shape[axis] // size for axis, size in enumerate((height, width)))
    x = picture[rows][:, columns]
    x = x[..., : 3 if is_first else shape[3]]
    x = x.transpose(2, 0, 1) if is_first else x
    x = np.stack([x, x[:, ::-1]][:batch])
    return (x / 255).astype(dtype) if np.issubdtype(dtype, np.floating) else x.astype(dtype)


def keep(out, folder, picture, name):
    graph, outputs = read(folder / f"{name}.json")
    graph = without_prelu(graph)
    (out / f"{name}.pb").write_bytes(graph.SerializeToString())
    placeholders = [node for node in graph.node if node.op == "Placeholder"]
    is_open = any(node.attr["shape"].shape.dim and node.attr["shape"].shape.dim[0].size < 0 for node in placeholders) and name not in OPEN
    kept = {"outputs": outputs, "unknown": [node.name for node in placeholders if node.attr["shape"].shape.unknown_rank]}
    with tf.Graph().as_default() as own:
        tf.import_graph_def(apart(graph), name="")
        with tf.compat.v1.Session(graph=own, config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)) as session:
            for number, batch in enumerate((1, 2) if is_open else (1, 1)):
                seen = picture if number == 0 else picture[:, : picture.shape[1] // 2]
                feeds = {node.name: value_of(name, node, batch, seen) for node in placeholders}
                answers = session.run([f"{o}:0" for o in outputs], {f"{k}:0": x for k, x in feeds.items()})
                # Changes inputs as much as rounding changes sums, to measure how the answers move.
                moved = {k: x * np.float32(1 + 2**-20) if x.dtype == np.float32 else x for k, x in feeds.items()}
                others = session.run([f"{o}:0" for o in outputs], {f"{k}:0": x for k, x in moved.items()})
                kept |= {f"{number} in {k}": x for k, x in feeds.items()} | {f"{number} out {i}": y for i, y in enumerate(answers)}
                kept |= {f"{number} moved {i}": np.abs(y - z.astype(np.float64)).max(initial=0) for i, (y, z) in enumerate(zip(answers, others))}
    np.savez(out / f"{name}.npz", **kept)


def main():
    out, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for name in sys.argv[4:]:
        keep(out, folder, np.load(sys.argv[3]), name)


main()
