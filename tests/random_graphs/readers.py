# SPDX-License-Identifier: Apache-2.0
"""Draws values that an operator may read wrongly, and operators that read them. The values are results of products,
which a device may keep in 16 bits; views with axes of size 1, whose strides are arbitrary; and values without
elements."""

import numpy as np
from draw import BF16, Skip

# Operators that are drawn more often than others after values of one kind (KINDS).
PICKERS = ["GatherND", "GatherElements", "Gather", "ScatterElements", "ScatterND", "TopK", "If", "Loop", "Scan", "Compress", "NonZero",
           "ReverseSequence", "Pad", "Resize", "CumSum", "ArgMax", "Slice", "Concat", "Split"]
WINDOWS = ["Conv", "Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool",
           "Gather", "GatherElements", "GatherND", "Reshape", "Resize", "Concat", "LayerNormalization", "Softmax"]
REDUCTIONS = ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
              "ReduceLogSumExp"]
TYPES = [np.float32] * 8 + [np.float16, BF16, np.float64]


def product(d):
    """Returns a product, often of integers, so that operators that take exact operands only can read it."""
    most = 1 if d.chance(0.6) else 4
    x = d.random.choice((product_of_rows, product_of_pictures))(d, most)
    if d.chance(0.3):
        x = d.add("Add", x, d.array((1,) if d.chance(0.5) else x.shape[-1:], x.dtype, -1, 1), exact=True)
    if d.chance(0.4):
        x = d.add(d.random.choice(("Relu", "Neg", "Abs")), x, exact=True)
    if d.chance(0.2):
        x = d.add("Tanh", x)
    return x


def product_of_rows(d, most):
    rank = d.random.choice((2, 2, 3, 4))
    shape = tuple(d.random.choice((1, 2, 3, 5)) for _ in range(rank - 2)) + (d.random.choice((1, 3, 4, 8, 17)), d.random.choice((3, 8, 16)))
    x = d.input(shape, d.random.choice(TYPES))
    w = d.array((shape[-1], d.random.choice((1, 4, 7, 8, 16, 33))), x.dtype, -most, most)
    if rank == 2 and d.chance(0.3):
        return d.add("Gemm", x, w, exact=True)
    return d.add("MatMul", x, w, exact=True)


def product_of_pictures(d, most):
    sizes = tuple(d.random.choice((1, 3, 5, 6)) for _ in range(d.random.choice((1, 2, 2))))
    channels = d.random.choice((1, 3, 8, 16))
    x = d.input((d.random.choice((1, 2)), channels, *sizes), d.random.choice(TYPES))
    kernel = d.random.choice((1, 3))
    w = d.array((d.random.choice((1, 4, 8, 16)), channels, *[kernel] * len(sizes)), x.dtype, -most, most)
    return d.add("Conv", x, w, pads=[kernel // 2] * 2 * len(sizes), exact=True)


def unit_axes(d):
    sizes = [d.random.choice((1, 2, 3)), d.random.choice((1, 3, 8, 16, 20, 32)), d.random.choice((1, 4, 5, 10, 16))]
    if np.prod(sizes) > 1024:
        raise Skip
    if d.chance(0.3):
        d.random.shuffle(sizes)
    x = d.random.choice((inserted, inserted, cut, kept))(d, sizes)
    if d.chance(0.7):
        order = list(range(x.rank))
        d.random.shuffle(order)
        x = d.add("Transpose", x, perm=order, exact=True)
    return x


def inserted(d, sizes):
    at = d.random.randint(0, 3)
    whole = [*sizes[:at], 1, *sizes[at:]]
    if d.chance(0.5):
        return values_of(d, whole)
    x = values_of(d, sizes)
    if d.chance(0.5):
        return d.add("Unsqueeze", x, np.array([at], np.int64), exact=True)
    return d.add("Reshape", x, np.array(whole, np.int64), exact=True)


def cut(d, sizes):
    """Returns a slice of one position along an axis; the strides of the other axes stay the same."""
    at = d.random.randint(0, 3)
    x = values_of(d, [*sizes[:at], 2, *sizes[at:]])
    if d.chance(0.4):
        return d.random.choice(d.add("Split", x, np.array([1, 1], np.int64), outputs=2, axis=at, exact=True))
    place = d.random.randrange(2)
    if d.chance(0.3):
        return d.add("Gather", x, np.array([place], np.int64), axis=at, exact=True)
    return d.add("Slice", x, *[np.array([n], np.int64) for n in (place, place + 1, at)], exact=True)


def kept(d, sizes):
    at = d.random.randint(0, 3)
    x = values_of(d, [*sizes[:at], 2, *sizes[at:]])
    return d.add(d.random.choice(("ReduceSum", "ReduceMax")), x, np.array([at], np.int64), keepdims=1, exact=True)


def values_of(d, shape):
    """Returns an input, or the negative or absolute value of an input."""
    if np.prod(shape) > 1024:
        raise Skip
    x = d.input(shape, d.random.choice(TYPES))
    return d.add(d.random.choice(("Neg", "Abs")), x, exact=True) if d.chance(0.4) else x


def nothing(d):
    """Returns a value with an axis of size 0: an input, or an empty slice of a product."""
    if d.chance(0.4):
        x = product(d)
        return d.add("Slice", x, *[np.array([n], np.int64) for n in (0, 0, d.axis(x))], exact=True)
    shape = [d.random.choice((1, 2, 3, 5)) for _ in range(d.random.choice((1, 2, 3, 4)))]
    shape[d.random.randrange(len(shape))] = 0
    dtype = d.random.choice([*TYPES, np.int64, np.int32])
    return d.input(shape, dtype)


def products_of_nothing(d):
    """Returns a product whose summed axis has size 0."""
    n, m = d.random.choice((1, 3, 8)), d.random.choice((1, 4, 7))
    x, w = d.input((n, 0)), d.weight(np.zeros((0, m), np.float32))
    if d.chance(0.5):
        return d.add("Gemm", x, w, d.array((m,)), exact=True)
    return d.add("MatMul", x, w, exact=True) if d.chance(0.5) else d.add("Einsum", x, w, equation="ij,jk->ik", exact=True)


# Kinds of values: the function that makes one, and the operators that read it more often than others.
KINDS = [(product, PICKERS), (product, PICKERS), (unit_axes, WINDOWS), (nothing, REDUCTIONS)]


def draw_reader(d, operators, draw):
    """Makes a value of one of the KINDS and a node that reads it; seldom, makes a product over an axis of size 0.
    `draw(d, domain, name)` draws a node of an operator; `operators` are pairs (domain, name)."""
    if d.chance(0.04):
        return products_of_nothing(d)
    make, readers = d.random.choice(KINDS)
    x = make(d)
    known = d.chance(0.75) or make is nothing
    name = ("ai.onnx", d.random.choice(readers)) if known else d.random.choice(operators)
    with d.seeing(x):
        return draw(d, *name)
