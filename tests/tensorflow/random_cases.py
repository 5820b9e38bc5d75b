# SPDX-License-Identifier: Apache-2.0
"""Draws cases of single operators of TensorFlow, beside the fixed ones of full_cases.py: other sizes (0 and 1 among
them), ranks, types, attributes and operands that are inputs instead of constants."""
import random

import numpy as np

from lite_cases import B, Case, F, H, I, L, S, U, Value

D = np.float64
SIZES = (0, 1, 1, 2, 3, 4, 5, 7)
ANY, NUMBERS, FLOATS = (F, F, D, H, I, L, U, S, B), (F, F, D, H, I, L), (F, F, D, H)
DRAWERS = {}


def draws(*names):
    def enter(way):
        DRAWERS.update(dict.fromkeys(names, way))
        return way

    return enter


class Draw:
    def __init__(self, *seed):
        self.random, self.numbers = random.Random(str(seed)), np.random.default_rng([ord(letter) for letter in str(seed)])

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    def int(self, low, high):
        """Returns an integer from low to high, both included."""
        return self.random.randint(low, high)

    def dims(self, low, high, empty=True):
        return [self.one(*SIZES[not empty:]) for _ in range(self.int(low, high))]

    def array(self, dims, dtype=F, low=-4, high=4):
        if dtype is B:
            return self.numbers.random(dims) > 0.5
        if np.issubdtype(dtype, np.integer):
            return self.numbers.integers(max(low, 0) if dtype is U else low, high + 1, dims).astype(dtype)
        return np.asarray(self.numbers.uniform(low, high, dims).astype(dtype))

    def operand(self, value, dtype=I):
        """Returns sizes, indices or other such numbers: a constant, or an input of fixed size."""
        return Value(np.asarray(value, dtype), constant=self.chance(0.6))

    def constant(self, value, dtype=I):
        return Value(np.asarray(value, dtype), constant=True)

    def axis(self, rank):
        return self.int(-rank, rank - 1)

    def narrowed(self, dims):
        """Returns dims that broadcast to `dims`."""
        dims = [1 if self.chance(0.25) else size for size in dims]
        return dims[self.int(0, len(dims)):] if self.chance(0.3) else dims

    def window(self, spatial, dilations=True):
        padding = self.one("SAME", "VALID", "EXPLICIT")
        words = {"strides": [1, *(self.int(1, 3) for _ in range(spatial)), 1], "padding": padding}
        if padding == "EXPLICIT":
            words["explicit_paddings"] = [0, 0, *(self.int(0, 2) for _ in range(2 * spatial)), 0, 0]
        return words | ({"dilations": [1, *(self.one(1, 1, 2) for _ in range(spatial)), 1]} if dilations else {})


@draws("Conv2D")
def conv(d):
    groups, each = d.one(1, 1, 2, 3), d.int(1, 3)
    return [d.array([d.int(1, 2), d.int(1, 9), d.int(1, 9), groups * each], d.one(F, D)),
            (d.int(1, 4), d.int(1, 4), each, groups * d.int(1, 3))], d.window(2)


@draws("DepthwiseConv2dNative")
def depthwise(d):
    channels, words = d.one(1, 3, 8), d.window(2)
    stride = 1 if max(words["dilations"]) > 1 else words["strides"][1]
    return [d.array([d.int(1, 2), d.int(1, 9), d.int(1, 9), channels], d.one(F, D)),
            (d.int(1, 4), d.int(1, 4), channels, d.int(1, 3))], words | {"strides": [1, stride, stride, 1]}


@draws("MaxPool", "AvgPool")
def pool(d, name):
    words = d.window(2, dilations=False)
    if name == "AvgPool" and words.pop("explicit_paddings", None):
        words["padding"] = "SAME"
    return [d.array([d.int(1, 2), d.int(1, 8), d.int(1, 8), d.int(1, 3)], d.one(F, D))], words | {"ksize": [1, d.int(1, 4), d.int(1, 4), 1]}


@draws("BatchMatMulV2")
def batch_matmul(d):
    (m, k, n), dtype, batch, ax, ay = d.dims(3, 3), d.one(*NUMBERS), d.dims(0, 3), d.chance(0.5), d.chance(0.5)
    return [d.array([*d.narrowed(batch), *((k, m) if ax else (m, k))], dtype), d.array([*batch, *((n, k) if ay else (k, n))], dtype)], {"adj_x": ax, "adj_y": ay}


@draws("StridedSlice")
def strided_slice(d):
    dims = d.dims(1, 4)
    count, dtype, rows = d.int(1, len(dims)), d.one(I, L), []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    ellipsis, axis = d.int(0, 9), 0
    is_new = [d.chance(0.2) for _ in range(count)]
    skipped = len(dims) - sum(not new and i != ellipsis for i, new in enumerate(is_new))
    for i in range(count):
        size = dims[axis] if axis < len(dims) else 1
        row = [d.int(-size - 2, size + 2), d.int(-size - 2, size + 2), d.one(1, 1, 2, 3, -1, -2)]
        if i == ellipsis:
            masks["ellipsis_mask"] |= 1 << i
            axis += skipped
        elif is_new[i]:
            masks["new_axis_mask"] |= 1 << i
        else:
            axis += 1
            if size and d.chance(0.3):
                masks["shrink_axis_mask"] |= 1 << i
                row = [d.int(-size, size - 1), row[1], d.int(1, 2)]
        rows.append(row)
        for name in ("begin_mask", "end_mask"):
            masks[name] |= d.chance(0.25) << i
    begin, end, step = zip(*rows)
    return [d.array(dims, d.one(*ANY)), d.operand(begin, dtype), d.operand(end, dtype), d.constant(step, dtype)], masks


@draws("SplitV")
def split_v(d):
    dims, parts = d.dims(1, 3), [d.int(0, 3) for _ in range(d.int(1, 4))]
    axis, given = d.axis(len(dims)), list(parts)
    dims[axis] = sum(parts)
    if d.chance(0.5):
        given[d.int(0, len(given) - 1)] = -1
    return [d.array(dims, d.one(*ANY)), d.operand(given, d.one(I, L)), d.constant(axis)], {"num_split": len(parts)}


@draws("Slice")
def slice_part(d):
    dims, dtype = d.dims(1, 4), d.one(I, L)
    begin = [d.int(0, size) for size in dims]
    sizes = [d.one(-1, d.int(0, size - at)) for size, at in zip(dims, begin)]
    return [d.array(dims, d.one(*ANY)), d.operand(begin, dtype), d.operand(sizes, dtype)], {}


@draws("PadV2")
def pad(d):
    dims, dtype = d.dims(1, 4), d.one(*ANY)
    return [d.array(dims, dtype), d.operand([[d.int(0, 3), d.int(0, 2)] for _ in dims], d.one(I, L)), d.array([], dtype)], {}


@draws("GatherV2")
def gather(d):
    dims = d.dims(1, 4, empty=False)
    axis = d.int(0, len(dims) - 1)
    batch = d.int(0, axis)
    index = d.numbers.integers(0, dims[axis], [*dims[:batch], *d.dims(0, 2)])
    return [d.array(dims, d.one(*ANY)), d.operand(index, d.one(I, L)), d.constant(d.one(axis, axis - len(dims)))], {"batch_dims": batch}


@draws("Mean", "Sum", "Prod", "Max", "Min")
def reduced(d, name):
    dims = d.dims(0, 4)
    axes = d.random.sample(range(len(dims)), d.int(0, len(dims)))
    return [d.array(dims, d.one(*NUMBERS)), d.constant([d.one(a, a - len(dims)) for a in axes], d.one(I, L))], {"keep_dims": d.chance(0.5)}


@draws("Cumsum", "Cumprod")
def cumulated(d, name):
    dims = d.dims(1, 3)
    return [d.array(dims, d.one(*NUMBERS)), d.constant(d.axis(len(dims)))], {"exclusive": d.chance(0.5), "reverse": d.chance(0.5)}


@draws("ResizeBilinear", "ResizeNearestNeighbor", "ResizeArea")
def resized(d, name):
    aligned, half = d.one((False, False), (True, False), (False, True))
    words = {"align_corners": aligned} | ({"half_pixel_centers": half} if name != "ResizeArea" else {})
    return [d.array([d.int(1, 2), d.int(1, 8), d.int(1, 8), d.int(1, 3)], d.one(F, F, D, U, I)), d.operand([d.int(1, 12), d.int(1, 12)])], words


@draws("ExtractImagePatches")
def patches(d):
    window = [1, d.int(1, 3), d.int(1, 3), 1], [1, d.int(1, 3), d.int(1, 2), 1], [1, d.int(1, 2), d.int(1, 2), 1]
    x = d.array([d.int(1, 2), d.int(1, 8), d.int(1, 8), d.int(1, 3)])
    return [x], dict(zip(("ksizes", "strides", "rates"), window)) | {"padding": d.one("SAME", "VALID")}


@draws("QuantizeAndDequantizeV4")
def quantised_and_back(d):
    words = {name: d.chance(0.5) for name in ("signed_input", "range_given", "narrow_range")}
    return [d.array(d.dims(1, 3, empty=False)), F(-1.5), F(2)], words | {"num_bits": d.one(4, 8), "round_mode": d.one("HALF_TO_EVEN", "HALF_UP")}


@draws("Add", "AddV2", "Sub", "Mul", "Maximum", "FloorDiv", "FloorMod", "RealDiv", "Less", "Equal", "Pow")
def of_two(d, name):
    dims, dtype = d.dims(0, 4), d.one(*FLOATS) if name in ("RealDiv", "Pow") else d.one(*NUMBERS)
    y = d.array(d.narrowed(dims), dtype, low=1)
    return d.random.sample([d.array(dims, dtype, low=1), y], 2), {}


@draws("Neg", "Sign", "Relu", "Softplus", "Expm1", "Tanh", "Erf", "Selu", "Rint")
def of_one(d, name):
    return [d.array(d.dims(0, 4), d.one(*FLOATS))], {}


def drawn(seed, count=3):
    """Returns `count` cases of each operator that has a drawer."""
    cases = []
    for operator, way in DRAWERS.items():
        for number in range(count):
            d = Draw(seed, operator, number)
            inputs, words = way(d, operator) if way.__code__.co_argcount > 1 else way(d)
            if any(isinstance(x, tuple) for x in inputs):  # the sizes of a filter
                inputs = [x if not isinstance(x, tuple) else Value(d.array(x, inputs[0].dtype.type), constant=True) for x in inputs]
            values = [x if isinstance(x, Value) else Value(np.asarray(x)) for x in inputs]
            has_open = not any(isinstance(x, Value) and not x.constant for x in inputs)  # the number of sizes must be fixed
            tolerance = 3e-3 if any(v.array.dtype == H for v in values) else 3e-5
            cases.append(Case(operator, values, [], "", words, tolerance, has_open, f"{operator}-{number}"))
    return cases
