# SPDX-License-Identifier: Apache-2.0
"""Small networks of the kinds that are split over several devices, as exporters write them, with random weights."""

import numpy as np
import onnx
from onnx import TensorProto, helper

F32, I64, I32, U8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8
TYPES = {np.dtype(np.float32): F32, np.dtype(np.int64): I64, np.dtype(np.int32): I32, np.dtype(np.float16): TensorProto.FLOAT16}


class Net:
    def __init__(self, seed=1):
        self.random, self.nodes, self.weights, self.inputs, self.outputs, self.feeds, self.donate = np.random.default_rng(seed), [], [], [], [], {}, {}

    def op(self, kind, *inputs, count=1, domain="", **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"{kind}_{len(self.nodes)}", domain=domain, **attributes))
        return names[0] if count == 1 else names

    def const(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *dims, scale=None):
        return self.const((self.random.standard_normal(dims) * (scale or dims[0] ** -0.5)).astype(np.float32))

    def shape(self, *dims):
        return self.const(np.array(dims, np.int64))

    def input(self, name, dims, value):
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[value.dtype], dims))
        self.feeds[name] = value
        return name

    def floats(self, name, dims, *sizes):
        return self.input(name, dims, self.random.standard_normal(sizes).astype(np.float32))

    def output(self, value, name, kind=F32):
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"give_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def linear(self, x, rows, cols, bias=True):
        y = self.op("MatMul", x, self.weight(rows, cols))
        return self.op("Add", y, self.weight(cols, scale=0.1)) if bias else y

    def norm(self, x, width):
        scale, bias = (self.const((one + 0.1 * self.random.standard_normal(width)).astype(np.float32)) for one in (1, 0))
        return self.op("LayerNormalization", x, scale, bias, axis=-1)

    def gelu(self, x):
        half = self.op("Mul", x, self.const(np.float32(0.5)))
        erf = self.op("Erf", self.op("Mul", x, self.const(np.float32(0.5**0.5))))
        return self.op("Mul", half, self.op("Add", erf, self.const(np.float32(1))))

    def heads(self, x, heads, size):
        return self.op("Transpose", self.op("Reshape", x, self.shape(0, 0, heads, size)), perm=[0, 2, 1, 3])

    def attention(self, q, k, v, size, mask=None):
        """Returns attention in the form that exporters write."""
        scores = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])), self.const(np.float32(size**-0.5)))
        scores = self.op("Add", scores, mask) if mask else scores
        a = self.op("Transpose", self.op("MatMul", self.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.op("Reshape", a, self.shape(0, 0, -1))

    def save(self, path, *domains):
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", 20), *(helper.make_opsetid(domain, 1) for domain in ("com.microsoft", *domains))]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
        return path


def embedded(net, width, words=50):
    ids = net.input("ids", ["batch", "sequence"], net.random.integers(0, words, (2, 6)))
    return net.op("Gather", net.weight(words, width, scale=1), ids)


def bert(width=64, layers=2, heads=8):
    """Returns an encoder with biases, a mask, a pooler and a classifier of 3 classes."""
    net = Net()
    x = embedded(net, width)
    mask = net.floats("mask", ["batch", 1, 1, "sequence"], 2, 1, 1, 6)
    for _ in range(layers):
        q, k, v = (net.heads(net.linear(x, width, width), heads, width // heads) for _ in range(3))
        a = net.linear(net.attention(q, k, v, width // heads, mask), width, width)
        x = net.norm(net.op("Add", x, a), width)
        inner = net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)
        x = net.norm(net.op("Add", x, inner), width)
    net.output(x, "hidden")
    first = net.op("Gather", x, net.const(np.int64(0)), axis=1)
    net.output(net.linear(net.op("Tanh", net.linear(first, width, width)), width, 3), "classes")
    return net


def gpt2(width=64, layers=2, heads=8, past=3):
    """Returns a decoder: one product for queries, keys and values, a cache that grows, and the embedding as the
    weights of the last product (tied)."""
    net = Net()
    table = net.weight(96, width, scale=1)
    ids = net.input("ids", ["batch", "sequence"], net.random.integers(0, 96, (2, 4)))
    x = net.op("Gather", table, ids)
    size = width // heads
    for i in range(layers):
        y = net.linear(net.norm(x, width), width, 3 * width)
        q, k, v = (net.heads(t, heads, size) for t in net.op("Split", y, net.shape(width, width, width), count=3, axis=2))
        sizes = ["batch", heads, "past", size]
        k = net.op("Concat", net.floats(f"past_k_{i}", sizes, 2, heads, past, size), k, axis=2)
        v = net.op("Concat", net.floats(f"past_v_{i}", sizes, 2, heads, past, size), v, axis=2)
        net.output(k, f"present_k_{i}"), net.output(v, f"present_v_{i}")
        x = net.op("Add", x, net.linear(net.attention(q, k, v, size), width, width))
        inner = net.linear(net.gelu(net.linear(net.norm(x, width), width, 4 * width)), 4 * width, width)
        x = net.op("Add", x, inner)
    net.output(net.op("MatMul", net.norm(x, width), net.op("Transpose", table, perm=[1, 0])), "logits")
    return net


def llama(width=64, layers=2, heads=8, kv_heads=4, room=16, past=5):
    """Returns a decoder as bench/gpu_decoder.py writes it: grouped queries, a cache with room that is updated in
    place."""
    net = Net()
    size, batch = width // heads, 2
    ids = net.input("ids", ["batch", 1], net.random.integers(0, 96, (batch, 1)))
    last = net.input("last", ["batch"], np.full(batch, past, np.int32))
    angle = np.outer(np.arange(room), 1e4 ** (-np.arange(0, size, 2) / size)).astype(np.float32)
    cosine, sine, total = net.const(np.cos(angle)), net.const(np.sin(angle)), net.const(np.int32(room))
    x = net.op("Gather", net.weight(96, width, scale=1), ids)
    for i in range(layers):
        y = net.norm(x, width)
        q, k, v = (net.linear(y, width, n * size, bias=False) for n in (heads, kv_heads, kv_heads))
        pasts = []
        for kind in "kv":
            cache = net.random.standard_normal((batch, kv_heads, room, size)).astype(np.float32)
            pasts.append(net.input(f"past_{kind}_{i}", ["batch", kv_heads, room, size], cache))
            net.donate[f"past_{kind}_{i}"] = f"present_{kind}_{i}"
        names = [f"a_{i}", f"present_k_{i}", f"present_v_{i}"]
        net.nodes.append(helper.make_node("GroupQueryAttention", [q, k, v, *pasts, last, total, cosine, sine], names, name=f"attend_{i}",
                                          domain="com.microsoft", num_heads=heads, kv_num_heads=kv_heads, do_rotary=1))
        net.outputs += [helper.make_tensor_value_info(name, F32, None) for name in names[1:]]
        x = net.op("Add", x, net.linear(names[0], heads * size, width, bias=False))
        y = net.norm(x, width)
        gate, up = (net.linear(y, width, 160, bias=False) for _ in range(2))
        inner = net.op("Mul", net.op("Mul", gate, net.op("Sigmoid", gate)), up)
        x = net.op("Add", x, net.linear(inner, 160, width, bias=False))
    net.output(net.linear(net.norm(x, width), width, 96, bias=False), "logits")
    return net


def vit(width=64, layers=1, heads=8):
    """Returns a vision transformer: a convolution that embeds the patches of a picture, then an encoder."""
    net = Net()
    x = net.op("Conv", net.floats("picture", ["batch", 3, 32, 32], 2, 3, 32, 32), net.weight(width, 3, 8, 8, scale=0.1), strides=[8, 8])
    x = net.op("Transpose", net.op("Reshape", x, net.shape(0, width, -1)), perm=[0, 2, 1])
    for _ in range(layers):
        y = net.linear(net.norm(x, width), width, 3 * width)
        y = net.op("Transpose", net.op("Reshape", y, net.shape(0, 0, 3, heads, width // heads)), perm=[2, 0, 3, 1, 4])
        q, k, v = (net.op("Gather", y, net.const(np.int64(i)), axis=0) for i in range(3))
        x = net.op("Add", x, net.linear(net.attention(q, k, v, width // heads), width, width))
        x = net.op("Add", x, net.linear(net.gelu(net.linear(net.norm(x, width), width, 2 * width)), 2 * width, width))
    net.output(net.linear(net.op("ReduceMean", x, net.shape(1), keepdims=0), width, 10), "classes")
    return net


def four_bits(width=256, inner=512, block=32):
    """Returns two products with weights of 4 bits: the first is split by columns, the second by blocks of rows."""
    net = Net()

    def product(x, rows, cols):
        codes = net.const(net.random.integers(0, 256, (cols, rows // block, block // 2)).astype(np.uint8))
        scales = net.const((net.random.random((cols, rows // block)) * 0.02 + 0.01).astype(np.float32))
        return net.op("MatMulNBits", x, codes, scales, domain="com.microsoft", K=rows, N=cols, bits=4, block_size=block)

    x = net.floats("x", ["batch", width], 3, width)
    net.output(net.op("Add", x, product(net.op("Relu", product(x, width, inner)), inner, width)), "y")
    return net


def experts(width=32, inner=64, count=4):
    """Returns a dense mixture of experts: every expert is computed and weighted by a gate."""
    net = Net()
    x = net.floats("x", ["tokens", width], 5, width)
    gate = net.op("Softmax", net.linear(x, width, count, bias=False), axis=-1)
    each = net.op("MatMul", net.op("Unsqueeze", x, net.shape(0)), net.weight(count, width, inner, scale=width**-0.5))
    each = net.op("MatMul", net.op("Relu", each), net.weight(count, inner, width, scale=inner**-0.5))
    weights = net.op("Unsqueeze", net.op("Transpose", gate, perm=[1, 0]), net.shape(2))
    net.output(net.op("ReduceSum", net.op("Mul", each, weights), net.shape(0), keepdims=0), "y")
    return net


NETWORKS = {f.__name__: f for f in (bert, gpt2, llama, vit, four_bits, experts)}


def drawn(seed):
    """Returns a random graph of products with other operators between them, some with sizes that the number of ranks
    divides."""
    net = Net(seed)
    r = net.random
    sizes = [24, 32, 33, 40, 48, 64, 96, 7]
    width = int(r.choice(sizes))
    values = [(net.floats("x", ["batch", "rows", width], 2, 3, width), width)]

    def pick():
        return values[int(r.integers(max(0, len(values) - 3), len(values)))]

    for _ in range(int(r.integers(5, 13))):
        x, n = pick()
        kind = r.choice(["product", "product", "product", "product", "product", "left", "relu", "bias", "norm", "softmax", "heads", "slice", "concat", "add", "gather", "sum", "scan"])
        if kind == "product":
            m = int(r.choice(sizes))
            values.append((net.linear(x, n, m, bias=bool(r.integers(2))), m))
        elif kind == "left":  # weights are the first operand
            m = int(r.choice(sizes))
            y = net.op("MatMul", net.weight(m, n), net.op("Transpose", x, perm=[0, 2, 1]))
            values.append((net.op("Transpose", y, perm=[0, 2, 1]), m))
        elif kind in ("relu", "bias"):
            values.append((net.op("Relu", x) if kind == "relu" else net.op("Mul", x, net.weight(n, scale=1)), n))
        elif kind == "norm":
            values.append((net.norm(x, n), n))
        elif kind in ("softmax", "scan"):
            axis = int(r.integers(1, 3))
            values.append((net.op("Softmax", x, axis=axis) if kind == "softmax" else net.op("CumSum", x, net.const(np.int64(axis))), n))
        elif kind == "heads" and n % 8 == 0:
            y = net.heads(x, n // 4 if r.integers(2) else 8, -1)
            scores = net.op("Softmax", net.op("MatMul", y, net.op("Transpose", y, perm=[0, 1, 3, 2])), axis=-1)
            a = net.op("Transpose", net.op("MatMul", scores, y), perm=[0, 2, 1, 3])
            values.append((net.op("Reshape", a, net.shape(0, 0, n)), n))
        elif kind == "slice" and n > 8:
            start, step = int(r.integers(0, n // 2)), int(r.integers(1, 3))
            y = net.op("Slice", x, net.shape(start), net.shape(n), net.shape(2), net.shape(step))
            values.append((y, -(-(n - start) // step)))
        elif kind == "concat":
            y, m = pick()
            if r.integers(2) or n != m:
                values.append((net.op("Concat", x, y, axis=2), n + m))
            else:
                values.append((net.op("Add", x, y), n))
        elif kind == "add":
            others = [v for v in values if v[1] == n]
            values.append((net.op("Add", x, others[int(r.integers(len(others)))][0]), n))
        elif kind == "gather":
            picked = r.integers(0, n, int(r.integers(1, n + 1)))
            values.append((net.op("Gather", x, net.const(picked), axis=2), len(picked)))
        elif kind == "sum":
            axis = int(r.integers(1, 3))
            y = net.op("ReduceMean", x, net.shape(axis), keepdims=1)
            values.append((net.op("Add", x, y), n))
    for i in range(min(2, len(values))):
        net.output(values[-1 - i][0], f"y{i}")
    return net
