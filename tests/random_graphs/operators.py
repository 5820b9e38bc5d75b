# SPDX-License-Identifier: Apache-2.0
"""One function for each way to add nodes to a drawing. Elementwise operators come from src/ops/elementwise.def, so that a
new line there is drawn at once.
"""

import re
from pathlib import Path

import numpy as np
from draw import SIZES, Skip
from onnx import TensorProto

TABLE = Path(__file__).resolve().parents[2] / "src" / "ops" / "elementwise.def"
# Functions that jump somewhere take exact operands only, others keep exact ones exact.
JUMPS = {"Sign", "Floor", "Ceil", "Round", "IsNaN", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Mod"}
KEEPS = {"Neg", "Abs", "Relu", "Add", "Sub", "Mul", "Min", "Max", "Where"} | JUMPS
# What brings operands into the function's domain.
BOUNDED = {"Asin", "Acos", "Atanh"}
POSITIVE = {"Sqrt", "Log", "Acosh", "Reciprocal"}


def table():
    """(ONNX name, arity, accepts) of each elementwise operator that ONNX has."""
    rows = re.findall(r'^ELEMENTWISE\(\w+,\s*(\d),\s*(\w+),\s*\w+,\s*"(\w+)"', TABLE.read_text(), re.M)
    return [(name, int(arity), accepts) for arity, accepts, name in rows]


def accepts(kind, value):
    letters = {"real": "f", "number": "fiu", "integer": "iu", "logic": "b", "any": "fiub"}[kind]
    return value.dtype.kind in letters and value.dtype != np.float64


def operand(d, name, kind):
    value = d.pick(lambda v: accepts(kind, v) and (v.exact or name not in JUMPS) and (kind != "number" or v.is_float))
    if name in BOUNDED:
        return d.add("Mul", d.add("Tanh", value), np.array(0.75, np.float32))
    if name in POSITIVE:
        return d.add("Add", d.add("Abs", value), np.array(1.25, np.float32))
    return value


def partner(d, value, exact):
    """Another operand that broadcasts with `value`: a value there, or a weight."""
    def fits(other):
        pairs = zip(other.shape[::-1], value.shape[::-1])
        return other.dtype == value.dtype and all(a == b or 1 in (a, b) for a, b in pairs) and (other.exact or not exact)

    if d.random.random() < 0.6:
        try:
            return d.pick(fits)
        except Skip:
            pass
    keep = d.random.randrange(value.rank + 1)
    shape = tuple(1 if d.random.random() < 0.3 else size for size in value.shape[keep:])
    return d.weight(d.array(shape, value.dtype))


def elementwise(d, name, arity, kind):
    if name == "Where":
        x = d.pick()
        condition = d.pick(lambda v: v.dtype == bool and broadcasts(v.shape, x.shape))
        return d.add("Where", condition, x, partner(d, x, False), exact=True)
    x = operand(d, name, kind)
    others = [partner(d, x, name in JUMPS) for _ in range(arity - 1)]
    if name == "Div":
        others = [d.add("Add", d.add("Abs", others[0]), np.asarray(1.5, x.dtype))]
    if d.random.random() < 0.2:
        others, x = [x, *others[1:]] if others else [], others[0] if others else x
    return d.add(name, x, *others, exact=name in KEEPS)


def broadcasts(a, b):
    return all(p == q or 1 in (p, q) for p, q in zip(a[::-1], b[::-1]))


# --- functions with attributes


def activation(d):
    name, attributes = d.random.choice([
        ("LeakyRelu", {"alpha": 0.125}), ("Elu", {"alpha": 0.75}), ("Selu", {}), ("HardSigmoid", {}), ("HardSwish", {}),
        ("Softplus", {}), ("Softsign", {}), ("Mish", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Celu", {}),
        ("ThresholdedRelu", {"alpha": 0.6}),
    ])  # fmt: skip
    x = d.pick(lambda v: v.dtype == np.float32 and (v.exact or name != "ThresholdedRelu"))
    return d.add(name, x, **attributes)


def prelu(d):
    x = d.float(least=1)
    return d.add("PRelu", x, d.array(x.shape[1:2] + (1,) * max(x.rank - 2, 0) if x.rank > 1 else (1,)))


def clip(d):
    x = d.pick(lambda v: v.dtype.kind in "fi")
    low, high = sorted(d.random.sample(range(-4, 5), 2))
    bounds = [np.asarray(low, x.dtype), np.asarray(high, x.dtype)]
    keep = d.random.choice([(0,), (1,), (0, 1), (0, 1)])
    return d.add("Clip", x, *[b if i in keep else None for i, b in enumerate(bounds)][: keep[-1] + 1], exact=True)


def cast(d):
    to, dtype = d.random.choice([(TensorProto.FLOAT, np.float32), (TensorProto.INT64, np.int64),
                                 (TensorProto.INT32, np.int32), (TensorProto.BOOL, bool)])  # fmt: skip
    x = d.pick(lambda v: v.exact and v.dtype != dtype)
    return d.add("Cast", x, to=to, exact=True)


def several(d):
    x = d.float()
    name = d.random.choice(["Sum", "Mean", "Max", "Min"])
    return d.add(name, x, partner(d, x, False), partner(d, x, False), exact=name != "Mean")


def power(d):
    exponent = d.random.choice([2.0, 3.0, 1.0, 0.5, -1.0, -0.5, 0.0])
    x = d.float() if exponent == int(exponent) and exponent > 0 else operand(d, "Sqrt", "real")
    return d.add("Pow", x, np.array(exponent, np.float32), exact=exponent in (1, 2, 3))


# --- views and moves


def reshape(d):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 0)
    sizes = list(x.shape)
    for _ in range(d.random.randrange(1, 4)):
        if len(sizes) > 1 and d.random.random() < 0.6:
            at = d.random.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        else:
            at = d.random.randrange(len(sizes))
            factors = [f for f in range(1, sizes[at] + 1) if sizes[at] % f == 0]
            factor = d.random.choice(factors)
            sizes[at : at + 1] = [factor, sizes[at] // factor]
    if len(sizes) > 5:
        raise Skip
    if d.random.random() < 0.4:
        sizes[d.random.randrange(len(sizes))] = -1
    elif sizes[0] == x.shape[0] and d.random.random() < 0.4:
        sizes[0] = 0
    return d.add("Reshape", x, np.array(sizes, np.int64), exact=True)


def transpose(d):
    x = d.pick(lambda v: v.rank > 1)
    order = list(range(x.rank))
    d.random.shuffle(order)
    return d.add("Transpose", x, exact=True, **({} if d.random.random() < 0.2 else {"perm": order}))


def squeeze(d):
    x = d.pick(lambda v: 1 in v.shape)
    axes = [a for a, size in enumerate(x.shape) if size == 1]
    return d.add("Squeeze", x, np.array(d.random.sample(axes, d.random.randint(1, len(axes))), np.int64), exact=True)


def unsqueeze(d):
    x = d.pick(lambda v: v.rank < 4)
    return d.add("Unsqueeze", x, np.array([d.random.randint(-x.rank - 1, x.rank)], np.int64), exact=True)


def flatten(d):
    x = d.pick(lambda v: v.rank > 0)
    return d.add("Flatten", x, axis=d.random.randint(-x.rank, x.rank), exact=True)


def expand(d):
    x = d.pick(lambda v: v.rank < 4 and v.plain.size < 256)
    sizes = [d.random.choice(SIZES[:6]) if s == 1 else s for s in x.shape]
    if d.random.random() < 0.5:
        sizes.insert(0, d.random.choice((1, 2, 3)))
    return d.add("Expand", x, np.array(sizes, np.int64), exact=True)


def tile(d):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size < 512)
    return d.add("Tile", x, np.array([d.random.choice((1, 1, 2, 3)) for _ in x.shape], np.int64), exact=True)


def slice_some(d):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 1)
    axes = d.random.sample(range(x.rank), d.random.randint(1, x.rank))
    starts, ends, steps = [], [], []
    for axis in axes:
        size, step = x.shape[axis], d.random.choice((1, 1, 1, 2, 3, -1, -2))
        first, last = sorted((d.random.randint(0, size), d.random.randint(0, size)))
        if d.random.random() < 0.3:
            first, last = 0, (1 << 62)
        starts.append(last if step < 0 else first)
        ends.append((first - 1 if first else -(1 << 62)) if step < 0 else last)
        steps.append(step)
    lists = [np.array(words, np.int64) for words in (starts, ends, axes, steps)]
    return d.add("Slice", x, *lists[: 4 if any(s != 1 for s in steps) else 3], exact=True)


def split(d):
    x = d.pick(lambda v: v.rank > 0 and max(v.shape) > 1)
    axis = d.random.choice([a for a, s in enumerate(x.shape) if s > 1])
    first = d.random.randint(1, x.shape[axis] - 1)
    return d.add("Split", x, np.array([first, x.shape[axis] - first], np.int64), outputs=2, axis=axis, exact=True)


def concat(d):
    x = d.pick(lambda v: v.rank > 0)
    axis = d.axis(x) % x.rank
    def fits(v):
        return v.dtype == x.dtype and v.rank == x.rank and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(v.shape, x.shape)))  # fmt: skip

    parts = [x] + [d.pick(fits, recent=0.4) for _ in range(d.random.randint(1, 2))]
    d.random.shuffle(parts)
    return d.add("Concat", *parts, axis=axis - (x.rank if d.random.random() < 0.3 else 0), exact=True)


def pad(d):
    mode = d.random.choice(["constant", "constant", "reflect", "edge", "wrap"])
    x = d.pick(lambda v: v.is_float and 0 < v.rank and (mode == "constant" or min(v.shape) > 2))
    sizes = np.array([d.random.choice((0, 0, 1, 2)) for _ in range(2 * x.rank)], np.int64)
    value = [np.array(d.random.randint(-2, 2), x.dtype)] if mode == "constant" and d.random.random() < 0.7 else []
    return d.add("Pad", x, sizes, *value, mode=mode, exact=True)


def depth_to_space(d):
    mode = {} if d.random.random() < 0.5 else {"mode": "CRD"}
    x = d.pick(lambda v: v.is_float and v.rank == 4 and v.shape[1] % 4 == 0)
    return d.add("DepthToSpace", x, blocksize=2, exact=True, **mode)


def trilu(d):
    x = d.pick(lambda v: v.rank > 1)
    return d.add("Trilu", x, np.array(d.random.randint(-2, 2), np.int64), upper=d.random.randrange(2), exact=True)


def shape_of(d):
    x = d.pick()
    return d.add("Shape", x, exact=True) if d.random.random() < 0.8 else d.add("Size", x, exact=True)


# --- by index


def gather(d):
    x = d.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    axis = d.axis(x)
    shape = d.random.choice([(), (1,), (3,), (2, 2)])
    index = d.numbers.integers(-x.shape[axis], x.shape[axis], shape)
    return d.add("Gather", x, np.asarray(index, d.random.choice([np.int64, np.int32])), axis=axis, exact=True)


def gather_elements(d):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 0)
    axis = d.axis(x)
    index = d.numbers.integers(-x.shape[axis], x.shape[axis], tuple(d.random.randint(1, s) for s in x.shape))
    return d.add("GatherElements", x, np.asarray(index, np.int64), axis=axis, exact=True)


def gather_nd(d):
    x = d.pick(lambda v: v.rank > 1 and v.plain.size > 0)
    depth = d.random.randint(1, x.rank)
    columns = [d.numbers.integers(-x.shape[k], x.shape[k], (3,)) for k in range(depth)]
    return d.add("GatherND", x, np.stack(columns, -1).astype(np.int64), exact=True)


def scatter_elements(d):
    x = d.pick(lambda v: v.is_float and v.rank > 0 and v.plain.size > 0)
    axis = d.axis(x)
    shape = tuple(d.random.randint(1, s) for s in x.shape)
    reduction = d.random.choice(["none", "add", "mul", "max", "min"])
    index = d.numbers.integers(0, x.shape[axis], shape)
    if reduction == "none":  # two updates of one place are undefined
        order = np.argsort(d.numbers.random(x.shape), axis=axis)
        index = order[tuple(slice(s) for s in shape)]
    return d.add("ScatterElements", x, np.asarray(index, np.int64), d.array(shape), axis=axis, reduction=reduction,
                 exact=True)  # fmt: skip


def scatter_nd(d):
    x = d.pick(lambda v: v.is_float and v.rank > 0 and v.plain.size > 0)
    rows = d.random.sample(range(x.shape[0]), min(x.shape[0], 2))
    index = np.array(rows, np.int64)[:, None]
    reduction = d.random.choice(["none", "add", "max"])
    return d.add("ScatterND", x, index, d.array((len(rows), *x.shape[1:])), reduction=reduction, exact=True)


def one_hot(d):
    x = d.pick(lambda v: v.dtype == np.int64 and v.rank < 3 and v.plain.size < 128)
    return d.add("OneHot", x, np.array(5, np.int64), np.array([0, 1], np.float32), axis=-1, exact=True)


# --- along axes


def reduce_some(d):
    name = d.random.choice(["Sum", "Sum", "Mean", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp"])
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank > 0 and v.plain.size > 0)
    axes = sorted(d.random.sample(range(-x.rank, 0), d.random.randint(1, x.rank)))
    words = {"keepdims": d.random.randrange(2), "exact": name in ("Sum", "Max", "Min", "L1", "SumSquare", "Prod")}
    if d.random.random() < 0.1:
        return d.add(f"Reduce{name}", x, **words)
    return d.add(f"Reduce{name}", x, np.array(axes, np.int64), **words)


def arg_reduce(d):
    x = d.pick(lambda v: v.is_float and v.exact and v.rank > 0 and v.plain.size > 0)
    return d.add(d.random.choice(["ArgMax", "ArgMin"]), x, axis=d.axis(x), keepdims=d.random.randrange(2),
                 select_last_index=d.random.randrange(2), exact=True)  # fmt: skip


def scan(d):
    x = d.float(least=1)
    return d.add("CumSum", x, np.array(d.axis(x), np.int64), exclusive=d.random.randrange(2),
                 reverse=d.random.randrange(2), exact=True)  # fmt: skip


def top_k(d):
    x = d.pick(lambda v: v.is_float and v.exact and v.rank > 0 and v.plain.size > 0)
    axis = d.axis(x)
    k = d.random.randint(1, x.shape[axis])
    return d.add("TopK", x, np.array([k], np.int64), outputs=2, axis=axis, largest=d.random.randrange(2), exact=True)


def softmax(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank > 0 and v.plain.size > 0)
    return d.add(d.random.choice(["Softmax", "Softmax", "LogSoftmax"]), x, axis=d.axis(x))


def layer_norm(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank > 1 and v.plain.size > 0)
    axis = d.random.randint(1, x.rank - 1)
    weights = [d.array(x.shape[axis:]) for _ in range(d.random.randint(1, 2))]
    return d.add("LayerNormalization", x, *weights, axis=axis - (x.rank if d.random.random() < 0.5 else 0), epsilon=1e-2)


def channel_norm(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank in (3, 4) and v.plain.size > 0)
    c = x.shape[1]
    scale, bias, mean = d.array((c,)), d.array((c,)), d.array((c,))
    name = d.random.choice(["BatchNormalization", "InstanceNormalization", "GroupNormalization"])
    if name == "BatchNormalization":
        return d.add(name, x, scale, bias, mean, np.abs(d.array((c,))) + np.float32(0.5))
    if name == "InstanceNormalization":
        return d.add(name, x, scale, bias, epsilon=1e-2)
    groups = d.random.choice([g for g in (1, 2, 4, c) if c % g == 0])
    return d.add(name, x, scale, bias, num_groups=groups, epsilon=1e-2)


def lp_norm(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank > 0 and v.plain.size > 0)
    return d.add("LpNormalization", x, axis=d.axis(x), p=2)  # for p=1 onnx's reference forgets the absolute value


# --- products


def matmul(d):
    x = d.float(least=1)
    k = x.shape[-1]
    try:
        if d.random.random() < 0.6:
            raise Skip
        y = d.pick(lambda v: v.dtype == np.float32 and v.rank > 1 and v.shape[-2] == k
                   and broadcasts(v.shape[:-2], x.shape[:-2]))  # fmt: skip
    except Skip:
        batch = x.shape[:-2] if d.random.random() < 0.2 else ()
        y = d.weight(d.array((*batch, k, d.random.choice(SIZES))) / np.float32(4))
    return d.add("MatMul", x, y, exact=True)


def gemm(d):
    x = d.float(rank=2)
    turn_a, turn_b = d.random.randrange(2), d.random.randrange(2)
    m, k = x.shape[::-1] if turn_a else x.shape
    n = d.random.choice(SIZES)
    bias = d.random.choice([(), (n,), (1, n), (m, 1), (m, n)])
    more = [d.array(bias)] if d.random.random() < 0.8 else []
    return d.add("Gemm", x, d.array((n, k) if turn_b else (k, n)) / np.float32(4), *more, transA=turn_a, transB=turn_b,
                 alpha=d.random.choice((1.0, 0.5)), beta=d.random.choice((1.0, 2.0)), exact=True)  # fmt: skip


def einsum(d):
    x = d.float(rank=3)
    b, i, k = x.shape
    equation, shape = d.random.choice([("bik,bjk->bij", (b, 3, k)), ("bik,kj->bij", (k, 4)), ("bik->ki", None),
                                       ("bik,bik->bi", (b, i, k)), ("bik,bkj->bji", (b, k, 2))])  # fmt: skip
    more = [d.weight(d.array(shape) / np.float32(4))] if shape else []
    return d.add("Einsum", x, *more, equation=equation, exact=True)


def window_words(d, spatial, least=1):
    kernel = [d.random.choice((1, 2, 3)) for _ in spatial]
    words = {"kernel_shape": kernel, "strides": [d.random.choice((1, 1, 2)) for _ in spatial]}
    words["pads"] = [d.random.randrange(k) if least else 0 for k in kernel + kernel]
    return words


def conv(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank in (3, 4) and v.plain.size > 0 and min(v.shape[2:]) > 2)
    c = x.shape[1]
    groups = d.random.choice([g for g in (1, 1, 2, c) if c % g == 0])
    out = groups * d.random.choice((1, 2, 3, 8))
    words = window_words(d, x.shape[2:])
    words["dilations"] = [d.random.choice((1, 1, 2)) for _ in x.shape[2:]]
    w = d.array((out, c // groups, *words["kernel_shape"])) / np.float32(4)
    bias = [d.array((out,))] if d.random.random() < 0.7 else []
    return d.add("Conv", x, w, *bias, group=groups, exact=True, **words)


def conv_transpose(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank == 4 and 0 < v.plain.size < 600)
    c = x.shape[1]
    words = window_words(d, x.shape[2:])
    return d.add("ConvTranspose", x, d.array((c, 3, *words["kernel_shape"])) / np.float32(4), exact=True, **words)


def pool(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank in (3, 4) and v.plain.size > 0 and min(v.shape[2:]) > 2)
    if d.random.random() < 0.2:
        return d.add(d.random.choice(["GlobalAveragePool", "GlobalMaxPool"]), x)
    words = window_words(d, x.shape[2:])
    if d.random.random() < 0.5:
        return d.add("MaxPool", x, exact=True, **words)
    return d.add("AveragePool", x, count_include_pad=d.random.randrange(2), **words)


def resize(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.rank == 4 and 0 < v.plain.size < 600)
    words = d.random.choice([
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ])  # fmt: skip
    return d.add("Resize", x, None, np.array([1, 1, 2, d.random.choice((1.0, 2.0))], np.float32), **words)


# --- quantised


def quantise(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.exact)
    zero = np.array(*d.random.choice([(0, np.int8), (3, np.uint8), (-5, np.int8)]))
    return d.add("QuantizeLinear", x, np.array(0.25, np.float32), zero, exact=True)


def dequantise(d):
    x = d.pick(lambda v: v.dtype in (np.int8, np.uint8))
    return d.add("DequantizeLinear", x, np.array(0.125, np.float32), np.array(2, x.dtype), exact=True)


ALL = [
    activation, prelu, clip, cast, several, power, reshape, transpose, squeeze, unsqueeze, flatten, expand, tile, slice_some,
    split, concat, pad, depth_to_space, trilu, shape_of, gather, gather_elements, gather_nd, scatter_elements, scatter_nd,
    one_hot, reduce_some, arg_reduce, scan, top_k, softmax, layer_norm, channel_norm, lp_norm, matmul, gemm, einsum, conv,
    conv_transpose, pool, resize, quantise, dequantise,
]  # fmt: skip


def drawers():
    """Every way to add nodes: (name, function of a drawing)."""
    ways = [(way.__name__, way) for way in ALL]
    for row in table():
        ways.append((row[0], lambda d, row=row: elementwise(d, *row)))
    return ways
