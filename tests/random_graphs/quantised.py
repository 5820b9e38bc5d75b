# SPDX-License-Identifier: Apache-2.0
"""Draws quantised layers in the forms that quantisers write, in addition to those of patterns.py. These are
convolutions and poolings between QDQ pairs, products of two quantised values, 16-bit integers, 8-bit floats, weights in
blocks, and scales that are computed in the run. Scales are powers of two, so that every sum is exact and every rounding
has one answer."""

import ml_dtypes
import numpy as np
from draw import INT4, Skip
from onnx import TensorProto

QUANTA = [(np.uint8, 0), (np.uint8, 128), (np.uint8, 101), (np.int8, 0), (np.int8, 0), (np.int8, -7)]
SCALES = (0.125, 0.25, 0.5)


def f32(x):
    return np.asarray(x, np.float32)


def between(d, x, quanta=None, scale=None):
    """Adds a QDQ pair (QuantizeLinear and DequantizeLinear with the same scale) after x; returns the result and the
    scale."""
    dtype, zero = quanta or d.random.choice(QUANTA)
    scale, zero = scale or d.random.choice(SCALES), np.array(zero, dtype)
    q = d.add("QuantizeLinear", x, f32(scale), zero, exact=True)
    return d.add("DequantizeLinear", q, f32(scale), zero, exact=True), scale


def weight(d, shape, axis, dtype=np.int8):
    """Returns a dequantised weight and its scales: one, or one for each index of the axis."""
    steps = d.array(shape, dtype)
    if d.chance(0.4):
        scale, zero, words = f32(d.random.choice(SCALES)), np.array(0, dtype), {}
    else:
        scale = f32([d.random.choice(SCALES) for _ in range(shape[axis])])
        zero, words = np.zeros(shape[axis], dtype), {"axis": axis}
    zeros = [zero] if d.chance(0.7) or dtype != np.int8 else []
    return d.add("DequantizeLinear", steps, scale, *zeros, exact=True, **words), scale


def bias(d, count, scale):
    """Draws a bias: none, one in floats, or one in integers with the scale `scale`, the product of the operands'
    scales."""
    if d.chance(0.3):
        return []
    if d.chance(0.3):
        return [d.weight(d.array((count,)))]
    steps = d.weight(d.numbers.integers(-40, 41, count).astype(np.int32))
    return [d.add("DequantizeLinear", steps, f32(scale), exact=True, **({"axis": 0} if np.ndim(scale) else {}))]


# --- one step between QDQ pairs: (drawing, value, scale) -> (value, scale)


def convolved(d, x, scale):
    axes, c = x.rank - 2, x.shape[1]
    group = d.random.choice((1, 1, c, *(g for g in (2, 4) if c % g == 0)))
    out = group * d.random.choice((1, 2, 5))
    kernel = [d.random.choice((1, 2, 3)) for _ in range(axes)]
    words = {"strides": [d.random.choice((1, 1, 2)) for _ in range(axes)], "dilations": [d.random.choice((1, 1, 2)) for _ in range(axes)],
             "pads": [d.random.choice((0, 1)) for _ in range(2 * axes)], "group": group}
    w, own = weight(d, (out, c // group, *kernel), 0)
    y = d.add("Conv", x, w, *bias(d, out, scale * own), exact=True, **words)
    return between(d, acted(d, y), scale=d.random.choice((0.25, 1.0, 4.0)))


def acted(d, y):
    way = d.random.choice(("", "", "Relu", "Clip", "LeakyRelu"))
    if way == "Clip":
        return d.add("Clip", y, f32(0), f32(6), exact=True)
    return d.add(way, y, exact=True, **({"alpha": 0.25} if way == "LeakyRelu" else {})) if way else y


def added(d, x, scale):
    other, _ = between(d, d.input(x.shape))
    pair = (x, other) if d.chance(0.5) else (other, x)
    return between(d, acted(d, d.add(d.random.choice(("Add", "Add", "Sub")), *pair, exact=True)))


def joined(d, x, scale):
    other, _ = between(d, d.input(x.shape))
    return between(d, d.add("Concat", x, other, x, axis=1, exact=True))


def pooled(d, x, scale):
    window = {"kernel_shape": [2] * (x.rank - 2), "strides": [d.random.choice((1, 2))] * (x.rank - 2)}
    return between(d, d.add(d.random.choice(("MaxPool", "AveragePool")), x, exact=True, **window))


def moved(d, x, scale):
    order = [0, 1, *d.random.sample(range(2, x.rank), x.rank - 2)]
    return between(d, d.add("Transpose", x, perm=order, exact=True), scale=scale)


def layers(d):
    """Returns a chain of steps; its result is dequantised or quantised."""
    axes = d.random.choice((1, 2, 2, 2, 3))
    shape = (d.random.choice((1, 2)), d.random.choice((1, 2, 3, 4, 8, 9)), *(6, 5, 4)[:axes])
    x, scale = between(d, d.input(shape))
    for _ in range(d.random.randint(1, 3)):
        x, scale = d.random.choice((convolved, convolved, added, joined, pooled, moved))(d, x, scale)
    if d.chance(0.5):
        return x
    return d.add("QuantizeLinear", x, f32(scale), np.array(*d.random.choice([(0, np.int8), (90, np.uint8)])), exact=True)


# --- products


def product(d):
    """Draws a MatMul with batches of rows, or Gemm with its weight transposed or not."""
    k, n = d.random.choice((1, 4, 16, 33)), d.random.choice((1, 3, 8, 17))
    if d.chance(0.5):
        x, scale = between(d, d.input((d.random.choice((1, 5)), k)))
        turned = d.random.randrange(2)
        w, own = weight(d, (n, k) if turned else (k, n), 1 - turned)
        y = d.add("Gemm", x, w, *bias(d, n, scale * own), transB=turned, exact=True)
    else:
        x, scale = between(d, d.input((*d.random.choice([(), (2,), (2, 3)]), d.random.choice((1, 4)), k)))
        w, own = weight(d, (k, n), 1)
        y = d.add("MatMul", x, w, exact=True)
        for b in bias(d, n, scale * own):
            y = d.add("Add", y, b, exact=True)
    return between(d, acted(d, y), scale=d.random.choice((0.5, 2.0)))[0] if d.chance(0.6) else y


def product_of_two(d):
    """Draws a product as in attention: both operands are computed, and one is transposed."""
    b, m, n, k = (d.random.choice((1, 2, 5)) for _ in range(4))
    left, _ = between(d, d.input((b, 2, m, k)))
    right, _ = between(d, d.input((b, 2, n, k)))
    y = d.add("MatMul", left, d.add("Transpose", right, perm=[0, 1, 3, 2], exact=True), exact=True)
    return between(d, y, scale=1.0)[0] if d.chance(0.5) else y


def wide_quanta(d):
    """Draws 16-bit integers before a product with 8-bit weights, or around an elementwise operator."""
    if d.opset < 21:
        raise Skip
    x, _ = between(d, d.input((d.random.choice((1, 3)), 8)), d.random.choice([(np.uint16, 32768), (np.uint16, 5), (np.int16, 0)]))
    w, _ = weight(d, (8, 5), 1)
    y = d.add("MatMul", x, w, exact=True) if d.chance(0.6) else d.add("Mul", x, f32(0.5), exact=True)
    return between(d, y, (np.int16, 0), 0.0625)[0]


def of_this_run(d):
    """Returns a product whose scale is computed in the run: DynamicQuantizeLinear, MatMulInteger, a Mul by both scales,
    and a bias."""
    rows, k, n = d.random.choice((1, 2, 7)), 16, d.random.choice((1, 5, 16))
    x = d.array((rows, k))
    x[:, 0], x[:, 1] = -32, 31.75  # the scale is 1/4 even if rows are dropped
    q, scale, zero = d.add("DynamicQuantizeLinear", d.given(x, chosen=True), outputs=3, exact=True)
    zeros = [d.weight(np.zeros((), np.int8))] if d.chance(0.3) else []
    y = d.add("MatMulInteger", q, d.array((k, n), np.int8), zero, *zeros, exact=True)
    own = f32(0.25) if d.chance(0.5) else f32([d.random.choice(SCALES) for _ in range(n)])
    y = d.add("Mul", d.add("Cast", y, to=TensorProto.FLOAT, exact=True), d.add("Mul", scale, own, exact=True), exact=True)
    return d.add("Add", y, d.array((n,)), exact=True) if d.chance(0.5) else y


def of_each_row(d):
    """Draws a product whose input is quantised by the range of each row, as `weft quantize --to int8-dynamic` writes
    it. The range of a row begins at 0 or -32 and has a length of 63.75 or twice that, so that steps are 1/4 and 1/2."""
    rows, k, n = d.random.choice([(1,), (7,), (2, 3)]), d.random.choice((4, 16, 33)), d.random.choice((1, 5, 16))
    x = d.array((*rows, k))
    x[..., 0], x[..., 1] = -32, 31.75
    x[..., :1, :] = (x[..., :1, :] + 32) * d.random.choice((1, 2))
    x = d.given(x, chosen=True)
    axes = {"axes": [-1]} if d.opset < 18 else {}
    last = [] if axes else [d.weight(np.array([-1]))]
    least, most = (d.add(op, x, *last, exact=True, **axes) for op in ("ReduceMin", "ReduceMax"))
    step = d.add("Max", d.add("Mul", d.add("Sub", most, least, exact=True), f32(1 / 255), exact=True), f32(1e-30), exact=True)
    q = d.add("QuantizeLinear", d.add("Div", d.add("Sub", x, least, exact=True), step, exact=True), f32(1), np.uint8(0), exact=True)
    w = d.numbers.integers(-127, 128, (k, n)).astype(np.int8)
    own = f32([d.random.choice(SCALES) for _ in range(n)])
    y = d.add("Cast", d.add("MatMulInteger", q, w, exact=True), to=TensorProto.FLOAT, exact=True)
    y = d.add("Mul", d.add("Mul", y, step, exact=True), own, exact=True)
    return d.add("Add", y, d.add("Mul", least, f32(w.sum(0) * own), exact=True), exact=True)


def float8(d):
    """Draws a product or convolution with both operands in 8-bit floats."""
    kind = np.dtype(d.random.choice((ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz)))
    is_picture, n = d.chance(0.4), d.random.choice((2, 8))
    x = d.input((1, 4, 6, 5) if is_picture else (*d.random.choice([(), (2,)]), d.random.choice((1, 3)), 16))
    x, _ = between(d, x, (kind, 0), d.random.choice((0.25, 1.0)))
    w, _ = weight(d, (n, 4, 3, 3) if is_picture else (16, n), 0 if is_picture else 1, kind)
    y = d.add("Conv", x, w, pads=[1, 1, 1, 1], exact=True) if is_picture else d.add("MatMul", x, w, exact=True)
    return between(d, y, (kind, 0), 1.0)[0] if d.chance(0.3) else y


def in_blocks(d):
    """Draws a MatMul, Gemm or Gather of block-quantised weights."""
    kind = np.dtype(d.random.choice((*INT4, np.int8, np.uint8)))
    axis, block = d.random.randrange(2), d.random.choice((16, 32))
    shape = [d.random.choice((16, 32, 48, 40)), d.random.choice((16, 32, 40))]
    few = list(shape)
    few[axis] = -(-few[axis] // block)
    signed = kind in (INT4[0], np.int8)
    steps = d.numbers.integers(-8 if signed else 0, 8 if signed else 16, shape).astype(np.int8).astype(kind)
    scale = f32(d.numbers.choice(SCALES, few))
    zeros = [d.numbers.integers(0, 4, few).astype(np.int8).astype(kind)] if d.chance(0.6) else []
    w = d.add("DequantizeLinear", steps, scale, *zeros, axis=axis, block_size=block, exact=True)
    if d.chance(0.2):
        return d.add("Gather", w, d.numbers.integers(0, shape[0], (2, 3)), exact=True)
    turned = d.random.randrange(2)
    x = d.input((d.random.choice((1, 3)), shape[turned]))
    if turned or d.chance(0.3):
        return d.add("Gemm", x, w, transB=turned, exact=True)
    return d.add("MatMul", x, w, exact=True)


ALL = [layers, layers, product, product_of_two, wide_quanta, of_this_run, of_each_row, float8, in_blocks]
