#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pack.py FILE [--chips all|host] [--models FOLDER]: makes the pack of compiled kernels that Weft ships with (kernel_build/kernel_pack.h).

The kernels are those of the bench models, with random weights, and of small networks that contain the usual layers of
convolutional networks and transformers. Most kernels do not depend on sizes, so few layers cover all layers of a kind.
WEFT_BUILD names another build than build/release.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release"))
SERVER, ZEN4 = "cpu:x86-64-v4", "+avx512bf16+avx512vbmi+avx512vnni"
CHIPS = {
    "host": ["cpu"],
    # Haswell to Zen 3; Alder Lake; Skylake; Cascade Lake; Ice Lake; Zen 4; Zen 5; Sapphire Rapids
    "all": ["cpu:x86-64-v3", "cpu:x86-64-v3+avxvnni", SERVER, f"{SERVER}+avx512vnni", f"{SERVER}+avx512vbmi+avx512vnni",
            SERVER + ZEN4, f"{SERVER}{ZEN4}+avxvnni", f"{SERVER}+amx-bf16+amx-int8+amx-tile{ZEN4}+avxvnni"],
}
ACTIVATIONS = ["none", "relu", "relu6", "silu", "hardswish", "sigmoid", "gelu", "leaky"]
NORMED = ["none", "relu", "relu6", "silu", "hardswish"]  # the activations that usually follow batch norms


class Network:
    """A graph under construction. Weights are random; every branch passed to `keep` becomes a part of the output."""

    def __init__(self, opset=18):
        self.nodes, self.weights, self.kept, self.inputs, self.opset = [], [], [], [], opset
        self.random = np.random.default_rng(0)

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, *shape):
        return self.constant(self.random.standard_normal(shape, dtype=np.float32) * np.float32(0.1))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def keep(self, value):
        self.kept.append(self.op("ReduceSum", value, keepdims=0))

    def write(self, path):
        answer = self.op("Sum", *self.kept)
        output = helper.make_tensor_value_info(answer, TensorProto.FLOAT, [])
        graph = helper.make_graph(self.nodes, "layers", self.inputs, [output], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9), path)

    def activate(self, x, name):
        match name:
            case "none":
                return x
            case "relu":
                return self.op("Relu", x)
            case "relu6":
                return self.op("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))
            case "silu":
                return self.op("Mul", x, self.op("Sigmoid", x))
            case "hardswish":
                return self.op("HardSwish", x)
            case "sigmoid":
                return self.op("Sigmoid", x)
            case "leaky":
                return self.op("LeakyRelu", x, alpha=0.1)
            case "gelu":
                half = self.op("Mul", x, self.constant(np.float32(0.5)))
                error = self.op("Erf", self.op("Div", x, self.constant(np.float32(2**0.5))))
                return self.op("Mul", half, self.op("Add", error, self.constant(np.float32(1))))

    def conv(self, x, inputs, outputs, kernel, stride=1, groups=1, bias=True):
        """Adds a convolution with a bias, without one (False), or with a batch norm as in graphs of PyTorch
        ("norm")."""
        operands = [x, self.weight(outputs, inputs // groups, kernel, kernel)]
        if bias is True:
            operands.append(self.weight(outputs))
        y = self.op("Conv", *operands, strides=[stride] * 2, group=groups, pads=[kernel // 2] * 4)
        if bias != "norm":
            return y
        scale, shift, mean = (self.weight(outputs) for _ in range(3))
        return self.op("BatchNormalization", y, scale, shift, mean, self.constant(np.ones(outputs, np.float32)))

    def layer_norm(self, x, width, bias=True, epsilon=1e-5):
        scale = [self.weight(width), self.weight(width)] if bias else [self.constant(np.ones(width, np.float32))]
        return self.op("LayerNormalization", x, *scale, epsilon=epsilon, axis=-1)

    def linear(self, x, inputs, outputs, bias=True):
        y = self.op("MatMul", x, self.weight(inputs, outputs))
        return self.op("Add", y, self.weight(outputs)) if bias else y


def residual_blocks(net, x, width, activation, bias):
    """Adds residual blocks of two and of three convolutions, with an identity shortcut or with a convolution as
    shortcut."""
    quarter = width // 4
    for stride, outputs in ((1, width), (1, 2 * width), (2, 2 * width)):
        two = net.activate(net.conv(x, width, outputs, 3, stride, bias=bias), activation)
        two = net.conv(two, outputs, outputs, 3, bias=bias)
        three = net.activate(net.conv(x, width, quarter, 1, bias=bias), activation)
        three = net.activate(net.conv(three, quarter, quarter, 3, stride, bias=bias), activation)
        three = net.conv(three, quarter, outputs, 1, bias=bias)
        for main in (two, three):
            short = x if outputs == width else net.conv(x, width, outputs, 1, stride, bias=bias)
            net.keep(net.activate(net.op("Add", main, short), activation))


def convolutions(activation, bias, folder):
    """Writes a model with the usual kinds of convolutions, most with the activation and some with a residual."""
    net = Network()
    x = net.input("image", ["batch" if bias else 1, 3, 112, 112])
    for kernel in (3, 7):
        stem = net.activate(net.conv(x, 3, 64, kernel, 2, bias=bias), activation)
        net.keep(stem)
    deep = net.conv(net.op("MaxPool", stem, kernel_shape=[3, 3], strides=[4, 4], pads=[1] * 4), 64, 256, 1)
    small = net.op("MaxPool", deep, kernel_shape=[2, 2], strides=[2, 2])
    net.keep(net.activate(net.conv(small, 256, 256, 3, bias=bias), activation))
    for value, width, wide in ((stem, 64, 128), (deep, 256, 256)):
        for outputs in (16, wide):
            same = net.conv(value, width, outputs, 1, bias=bias)
            net.keep(net.activate(same, activation))
        for kernel, stride, groups in ((3, 1, 1), (3, 2, 1), (5, 1, 1), (3, 1, 4), (3, 1, width), (5, 1, width), (3, 2, width), (7, 1, width)):
            net.keep(net.activate(net.conv(value, width, width, kernel, stride, groups, bias), activation))
        for kernel in (1, 3):
            same = net.conv(value, width, width, kernel, bias=bias)
            net.keep(net.activate(net.op("Add", same, value), activation))
            net.keep(net.activate(net.op("Add", value, net.conv(value, width, width, kernel, bias=bias)), activation))
        narrow = net.conv(value, width, 24, 1, bias=bias)
        net.keep(net.activate(net.op("Add", net.conv(narrow, 24, 24, 3, bias=bias), narrow), activation))
        net.keep(net.op("Add", net.conv(narrow, 24, 24, 1, bias=bias), narrow))
        net.keep(net.op("Add", value, net.activate(net.conv(value, width, width, 3, bias=bias), activation)))
    if bias is not False:
        residual_blocks(net, deep, 256, activation, bias)
        residual_blocks(net, small, 256, activation, bias)
    net.write(folder / f"conv_{activation}_{bias}.onnx")


def heads(activation, folder):
    """Writes a model with the operators between convolutions: channel gates (squeeze and excitation), pooling, concatenated
    and resized pictures, and the classifier."""
    net = Network()
    x = net.input("image", [1, 3, 64, 64])
    stem = net.activate(net.conv(x, 3, 64, 3, 2), activation)
    for gate in ("Sigmoid", "HardSigmoid"):
        pooled = net.op("GlobalAveragePool", stem)
        squeezed = net.activate(net.conv(pooled, 64, 16, 1), activation)
        net.keep(net.conv(net.op("Mul", net.op(gate, net.conv(squeezed, 16, 64, 1)), stem), 64, 64, 1))
    for kind, more in (("MaxPool", {}), ("AveragePool", {"count_include_pad": 1}), ("AveragePool", {})):
        net.keep(net.op(kind, stem, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, **more))
        net.keep(net.conv(net.op(kind, stem, kernel_shape=[2, 2], strides=[2, 2], **more), 64, 64, 1))
    joined = net.op("Concat", stem, net.activate(net.conv(stem, 64, 32, 3), activation), axis=1)
    net.keep(net.activate(net.conv(joined, 96, 64, 1), activation))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    for mode, where in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners")):
        big = net.op("Resize", net.conv(stem, 64, 32, 1), "", scales, mode=mode, coordinate_transformation_mode=where,
                     **({"nearest_mode": "floor"} if mode == "nearest" else {}))
        net.keep(net.conv(big, 32, 32, 3))
        net.keep(big)
    flat = net.op("Flatten", net.op("GlobalAveragePool", stem), axis=1)
    hidden = net.activate(net.op("Gemm", flat, net.weight(128, 64), net.weight(128), transB=1), activation)
    net.keep(net.op("Softmax", net.op("Gemm", hidden, net.weight(10, 128), net.weight(10), transB=1), axis=-1))
    net.write(folder / f"heads_{activation}.onnx")


def transformer(activation, masked, is_bias, folder, width=256, head=64):
    """Writes a model of transformer blocks with pre- and post-normalisation, on picture patches or on tokens with a mask."""
    net = Network()
    length, count = "seq" if masked else 197, width // head
    x = net.input("tokens", ["batch", length, width])
    mask = net.input("mask", ["batch", 1, 1, length]) if masked else None
    shape = net.constant(np.array([0, 0, count, head]))
    for epsilon in (1e-5, 1e-6, 1e-12):
        normed = net.layer_norm(x, width, is_bias, epsilon)
        split = [net.op("Reshape", net.linear(normed, width, width, is_bias), shape) for _ in range(3)]
        q, k, v = (net.op("Transpose", part, perm=perm) for part, perm in zip(split, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
        scores = net.op("Mul", net.op("MatMul", q, k), net.constant(np.float32(head**-0.5)))
        weights = net.op("Softmax", net.op("Add", scores, mask) if masked else scores, axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        mixed = net.linear(net.op("Reshape", mixed, net.constant(np.array([0, 0, width]))), width, width, is_bias)
        x = net.op("Add", x, mixed)
        y = net.layer_norm(x, width, is_bias, epsilon)
        y = net.linear(net.activate(net.linear(y, width, 4 * width, is_bias), activation), 4 * width, width, is_bias)
        x = net.op("Add", y, x)
        net.keep(net.layer_norm(net.op("Add", y, x), width, is_bias, epsilon))
    net.keep(net.op("ReduceMean", x, net.constant(np.array([1])), keepdims=0))
    net.write(folder / f"transformer_{activation}_{masked}_{is_bias}.onnx")


def bench_model(name, folder):
    """Writes a graph of bench/models with random weights, because the values of weights do not affect the choice of
    kernels."""
    import json

    model = onnx.load(ROOT / "bench" / "models" / f"{name}.onnx")
    kept = json.loads((ROOT / "bench" / "models" / f"{name}.json").read_text())["weights"]
    noise = np.random.default_rng(0).standard_normal(1 << 16, dtype=np.float32)
    inputs = []
    for value in model.graph.input:
        if value.name not in kept:
            inputs.append(value)
            continue
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        values = noise * 100 if np.issubdtype(kind, np.integer) else noise
        model.graph.initializer.append(numpy_helper.from_array(np.resize(values.astype(kind), dims), value.name))
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.save(model, folder / f"{name}.onnx")


def make_models(folder):
    for activation in ACTIVATIONS:
        for bias in (True, False, *(["norm"] if activation in NORMED else [])):
            convolutions(activation, bias, folder)
        heads(activation, folder)
    for activation in ("gelu", "relu", "silu"):
        for masked in (False, True):
            for is_bias in (True, False):
                transformer(activation, masked, is_bias, folder)
    for path in sorted((ROOT / "bench" / "models").glob("*.json")):
        bench_model(path.stem, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--chips", choices=CHIPS, default="all")
    parser.add_argument("--models", type=Path, help="a folder to keep the models in")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = words.models or Path(scratch)
        folder.mkdir(exist_ok=True)
        make_models(folder)
        models = sorted(folder.glob("*.onnx"))
        done = subprocess.run([BUILD / "bin/weft-pack", words.file, *models, "--chip", ",".join(CHIPS[words.chips])])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
