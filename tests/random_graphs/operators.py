# SPDX-License-Identifier: Apache-2.0
"""Functions that draw ONNX's operators; their arguments are a drawing and an operator's name. Elementwise operators
come from src/ops/elementwise.def, so a new line there is drawn at once. Operators without a function here are drawn
from ONNX's own cases (node_cases.py).
"""

import re
from pathlib import Path

import numpy as np
from draw import BF16, SIZES, Skip
from onnx import TensorProto

TABLE = Path(__file__).resolve().parents[2] / "src" / "ops" / "elementwise.def"
# Functions with discontinuities, which take exact operands only.
JUMPS = {"Sign", "Floor", "Ceil", "Round", "IsNaN", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Mod"}
# STEPS: nodes from ONNX's cases that take exact operands only. KEEPS: functions with exact results for exact operands.
STEPS = JUMPS | {"OneHot", "Unique", "ThresholdedRelu", "Shrink", "Hardmax", "TopK", "NonMaxSuppression", "QuantizeLinear"}
KEEPS = {"Neg", "Abs", "Relu", "Add", "Sub", "Mul", "Min", "Max", "Where"} | JUMPS
# Operators whose operands are first mapped into their domain.
BOUNDED = {"Asin", "Acos", "Atanh"}
POSITIVE = {"Sqrt", "Log", "Acosh", "Reciprocal"}
DRAWERS = {}


def draws(*names):
    """Registers a function as one way to draw these operators."""

    def enter(way):
        for name in names:
            DRAWERS.setdefault(name, []).append(way)
        return way

    return enter


def table():
    """Returns (ONNX name, arity, accepts) of each elementwise operator that ONNX has."""
    rows = re.findall(r'^ELEMENTWISE\(\w+,\s*(\d),\s*(\w+),\s*\w+,\s*"(\w+)"', TABLE.read_text(), re.M)
    return [(name, int(arity), accepts) for arity, accepts, name in rows]


def accepts(kind, value):
    letters = {"real": "", "number": "iu", "integer": "iu", "logic": "b", "any": "iub"}[kind]
    return value.dtype.kind in letters or (value.is_float and kind in ("real", "number", "any"))


def operand(d, name, kind):
    value = d.pick(lambda v: accepts(kind, v) and (v.exact or name not in JUMPS) and (name != "Neg" or v.dtype.kind != "u"))
    if name == "Erf" and value.dtype == np.float64:  # onnx's reference computes it in f32
        raise Skip
    if name in BOUNDED:
        return d.add("Mul", d.add("Tanh", value), np.array(0.75, value.dtype))
    if name in POSITIVE:
        return d.add("Add", d.add("Abs", value), np.array(1.25, value.dtype))
    return value


def partner(d, value, exact):
    """Returns a second operand that broadcasts with `value`: an existing value, or a weight."""
    def fits(other):
        pairs = zip(other.shape[::-1], value.shape[::-1])
        return other.dtype == value.dtype and all(a == b or 1 in (a, b) for a, b in pairs) and (other.exact or not exact)

    if d.chance(0.6):
        try:
            return d.pick(fits)
        except Skip:
            pass
    keep = d.random.randrange(value.rank + 1)
    shape = tuple(1 if d.chance(0.3) else size for size in value.shape[keep:])
    return d.weight(d.array(shape, value.dtype))


def elementwise(d, name, arity, kind):
    if name == "Where":
        x = d.pick()
        condition = d.pick(lambda v: v.dtype == bool and broadcasts(v.shape, x.shape))
        return d.add("Where", condition, x, partner(d, x, False), exact=True)
    x = operand(d, name, kind)
    others = [partner(d, x, name in JUMPS) for _ in range(arity - 1)]
    if name == "Div":
        if not x.is_float:  # onnx's reference rounds negative quotients of integers down
            x = d.add("Abs", x)
        divisor = d.add("Abs", others[0])
        if x.is_float:
            others = [d.add("Add", divisor, np.asarray(1.5, x.dtype))]
        else:  # an odd divisor is not 0; adding 1 would turn 255 into 0 in 8 bits
            others = [d.add("BitwiseOr", divisor, np.asarray(1, x.dtype))]
    elif d.chance(0.2):
        others, x = [x, *others[1:]] if others else [], others[0] if others else x
    return d.add(name, x, *others, exact=name in KEEPS)


def enter_elementwise():
    for row in table():
        draws(row[0])(lambda d, name, row=row: elementwise(d, *row))


enter_elementwise()


def broadcasts(a, b):
    return all(p == q or 1 in (p, q) for p, q in zip(a[::-1], b[::-1]))


@draws("Mod")
def mod(d, name):
    x = d.pick(lambda v: v.exact and v.dtype != bool and v.dtype.kind in "iuf")
    divisor = np.asarray(d.random.choice((2, 3, 5)), x.dtype)
    return d.add(name, x, divisor, fmod=int(x.is_float or d.chance(0.3)), exact=True)


@draws("BitShift")
def bit_shift(d, name):
    dtype = d.random.choice([np.uint8, np.uint16, np.uint32, np.uint64])
    x = d.input(d.shape(), dtype)
    return d.add(name, x, d.weight(d.array(x.shape[-1:], dtype)), direction=d.random.choice(["LEFT", "RIGHT"]), exact=True)


@draws("Xor", "And", "Or")
def of_comparisons(d, name):
    a, b = (d.real(want=lambda v: v.exact) for _ in range(2))
    return d.add(name, d.add("Greater", a, np.array(0.5, a.dtype), exact=True), d.add("Less", b, np.array(1, b.dtype), exact=True))


# --- functions with attributes


ACTIVATIONS = {
    "LeakyRelu": {"alpha": 0.125}, "Elu": {"alpha": 0.75}, "Selu": {}, "HardSigmoid": {}, "HardSwish": {}, "Softplus": {},
    "Softsign": {}, "Mish": {}, "Gelu": {"approximate": "tanh"}, "Celu": {"alpha": 1.5}, "ThresholdedRelu": {"alpha": 0.6},
    "Swish": {"alpha": 1.25},
}


@draws(*ACTIVATIONS)
def activation(d, name):
    if name == "Swish" and d.opset < 24:
        raise Skip
    x = d.real(want=lambda v: v.exact or name != "ThresholdedRelu")
    return d.add(name, x, **(ACTIVATIONS[name] if d.chance(0.7) else {}))


@draws("Shrink")
def shrink(d, name):
    return d.add(name, d.real(want=lambda v: v.exact), lambd=d.random.choice([0.5, 1.25]), bias=d.random.choice([0.0, 0.25]))


@draws("PRelu")
def prelu(d, name):
    x = d.real(least=1)
    return d.add(name, x, d.array(x.shape[1:2] + (1,) * max(x.rank - 2, 0) if x.rank > 1 else (1,), x.dtype))


@draws("Clip")
def clip(d, name):
    x = d.pick(lambda v: v.dtype.kind in "iu" or v.is_float)
    low, high = sorted(d.random.sample(range(0 if x.dtype.kind == "u" else -4, 5), 2))
    bounds = [np.asarray(low, x.dtype), np.asarray(high, x.dtype)]
    keep = d.random.choice([(0,), (1,), (0, 1), (0, 1)])
    return d.add(name, x, *[b if i in keep else None for i, b in enumerate(bounds)][: keep[-1] + 1], exact=True)


CASTS = [(TensorProto.FLOAT, np.float32), (TensorProto.FLOAT, np.float32), (TensorProto.INT64, np.int64), (TensorProto.INT32, np.int32),
         (TensorProto.BOOL, bool), (TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, BF16),
         (TensorProto.DOUBLE, np.float64), (TensorProto.INT8, np.int8), (TensorProto.UINT8, np.uint8)]


@draws("Cast", "CastLike")
def cast(d, name):
    to, dtype = d.random.choice(CASTS)
    x = d.pick(lambda v: v.exact and v.dtype != dtype and (np.dtype(dtype).kind != "u" or np.all(v.plain.astype(np.float64) >= 0)))
    if name == "CastLike":
        return d.add(name, x, d.weight(d.array((1,), dtype)), exact=True)
    return d.add(name, x, to=to, exact=True)


@draws("Sum", "Mean", "Max", "Min")
def several(d, name):
    x = d.pick(lambda v: v.is_float or (name in ("Max", "Min") and v.dtype.kind in "iu"))
    more = [partner(d, x, False) for _ in range(d.random.choice((1, 2, 2)))]
    return d.add(name, x, *more, exact=name != "Mean")


@draws("Pow")
def power(d, name):
    exponent = d.random.choice([2.0, 3.0, 1.0, 0.5, -1.0, -0.5, 0.0])
    x = d.real() if exponent == int(exponent) and exponent > 0 else operand(d, "Sqrt", "real")
    return d.add(name, x, np.array(exponent, x.dtype), exact=exponent in (1, 2, 3))


@draws("Dropout")
def dropout(d, name):
    return d.add(name, d.real(), exact=True)


@draws("IsNaN", "IsInf")
def is_special(d, name):
    return d.add(name, d.float(), exact=True)


# --- views and copies


@draws("Identity")
def identity(d, name):
    return d.add(name, d.pick(), exact=True)


@draws("Reshape")
def reshape(d, name):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 0)
    sizes = list(x.shape)
    for _ in range(d.random.randrange(1, 4)):
        if len(sizes) > 1 and d.chance(0.6):
            at = d.random.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        else:
            at = d.random.randrange(len(sizes))
            factors = [f for f in range(1, sizes[at] + 1) if sizes[at] % f == 0]
            factor = d.random.choice(factors)
            sizes[at : at + 1] = [factor, sizes[at] // factor]
    if len(sizes) > 5:
        raise Skip
    if d.chance(0.4):
        sizes[d.random.randrange(len(sizes))] = -1
    elif sizes[0] == x.shape[0] and d.chance(0.4):
        sizes[0] = 0
    return d.add(name, x, np.array(sizes, np.int64), exact=True)


@draws("Transpose")
def transpose(d, name):
    x = d.pick(lambda v: v.rank > 1)
    order = list(range(x.rank))
    d.random.shuffle(order)
    return d.add(name, x, exact=True, **({} if d.chance(0.2) else {"perm": order}))


@draws("Squeeze")
def squeeze(d, name):
    x = d.pick(lambda v: 1 in v.shape)
    axes = [a for a, size in enumerate(x.shape) if size == 1]
    return d.add(name, x, np.array(d.random.sample(axes, d.random.randint(1, len(axes))), np.int64), exact=True)


@draws("Unsqueeze")
def unsqueeze(d, name):
    x = d.pick(lambda v: v.rank < 4)
    axis = np.array([d.random.randint(-x.rank - 1, x.rank)], np.int64)
    return d.add(name, x, d.given(axis, chosen=True) if d.chance(0.1) else axis, exact=True)


@draws("Flatten")
def flatten(d, name):
    x = d.pick(lambda v: v.rank > 0)
    return d.add(name, x, axis=d.random.randint(-x.rank, x.rank), exact=True)


@draws("Expand")
def expand(d, name):
    x = d.pick(lambda v: v.rank < 4 and v.plain.size < 256)
    sizes = [d.random.choice(SIZES[:6]) if s == 1 else s for s in x.shape]
    if d.chance(0.5):
        sizes.insert(0, d.random.choice((1, 2, 3)))
    return d.add(name, x, np.array(sizes, np.int64), exact=True)


@draws("Tile")
def tile(d, name):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size < 512)
    return d.add(name, x, np.array([d.random.choice((1, 1, 2, 3)) for _ in x.shape], np.int64), exact=True)


@draws("Slice")
def slice_some(d, name):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 1)
    axes = d.random.sample(range(x.rank), d.random.randint(1, x.rank))
    starts, ends, steps = [], [], []
    for axis in axes:
        size, step = x.shape[axis], d.random.choice((1, 1, 1, 2, 3, -1, -2))
        first, last = sorted((d.random.randint(0, size), d.random.randint(0, size)))
        if d.chance(0.3):
            first, last = 0, (1 << 62)
        starts.append(last if step < 0 else first)
        ends.append((first - 1 if first else -(1 << 62)) if step < 0 else last)
        steps.append(step)
    lists = [np.array(words, np.int64) for words in (starts, ends, axes, steps)]
    return d.add(name, x, *lists[: 4 if any(s != 1 for s in steps) else 3], exact=True)


@draws("Split")
def split(d, name):
    x = d.pick(lambda v: v.rank > 0 and max(v.shape) > 1)
    axis = d.random.choice([a for a, s in enumerate(x.shape) if s > 1])
    first = d.random.randint(1, x.shape[axis] - 1)
    if x.shape[axis] % 2 == 0 and d.chance(0.3):
        return d.add(name, x, outputs=2, axis=axis, num_outputs=2, exact=True)
    return d.add(name, x, np.array([first, x.shape[axis] - first], np.int64), outputs=2, axis=axis, exact=True)


@draws("Concat")
def concat(d, name):
    x = d.pick(lambda v: v.rank > 0)
    axis = d.axis(x) % x.rank
    def fits(v):
        return v.dtype == x.dtype and v.rank == x.rank and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(v.shape, x.shape)))

    parts = [x] + [d.pick(fits, recent=0.4) for _ in range(d.random.randint(1, 2))]
    d.random.shuffle(parts)
    return d.add(name, *parts, axis=axis - (x.rank if d.chance(0.3) else 0), exact=True)


@draws("Pad")
def pad(d, name):
    mode = d.random.choice(["constant", "constant", "reflect", "edge", "wrap"])
    x = d.pick(lambda v: v.is_float and 0 < v.rank and (mode == "constant" or min(v.shape) > 2))
    sizes = np.array([d.random.choice((0, 0, 1, 2)) for _ in range(2 * x.rank)], np.int64)
    value = [np.array(d.random.randint(-2, 2), x.dtype)] if mode == "constant" and d.chance(0.7) else []
    return d.add(name, x, sizes, *value, mode=mode, exact=True)


@draws("DepthToSpace")
def depth_to_space(d, name):
    mode = {} if d.chance(0.5) else {"mode": "CRD"}
    x = d.pick(lambda v: v.is_float and v.rank == 4 and v.shape[1] % 4 == 0)
    return d.add(name, x, blocksize=2, exact=True, **mode)


@draws("SpaceToDepth")
def space_to_depth(d, name):
    x = d.pick(lambda v: v.is_float and v.rank == 4 and v.shape[2] % 2 == 0 and v.shape[3] % 2 == 0)
    return d.add(name, x, blocksize=2, exact=True)


@draws("Trilu")
def trilu(d, name):
    x = d.pick(lambda v: v.rank > 1)
    return d.add(name, x, np.array(d.random.randint(-2, 2), np.int64), upper=d.random.randrange(2), exact=True)


@draws("Shape", "Size")
def shape_of(d, name):
    return d.add(name, d.pick(), exact=True)


@draws("ReverseSequence")
def reverse_sequence(d, name):
    x = d.real(least=2)
    lengths = d.numbers.integers(1, x.shape[0] + 1, x.shape[1])
    return d.add(name, x, lengths, time_axis=0, batch_axis=1, exact=True)


@draws("CenterCropPad")
def center_crop_pad(d, name):
    x = d.pick(lambda v: v.is_float and v.rank > 0)
    axis = d.axis(x)
    return d.add(name, x, np.array([d.random.choice(SIZES[:8])], np.int64), axes=[axis], exact=True)


@draws("EyeLike")
def eye_like(d, name):
    return d.add(name, d.pick(lambda v: v.rank == 2), k=d.random.randint(-1, 1), dtype=TensorProto.FLOAT, exact=True)


@draws("ConstantOfShape")
def constant_of_shape(d, name):
    x = d.pick()
    return d.add(name, d.add("Shape", x, exact=True), exact=True)


@draws("Range")
def range_of(d, name):
    x = d.pick(lambda v: v.rank > 0)
    n = d.add("Gather", d.add("Shape", x), np.array(0, np.int64), axis=0, exact=True)
    return d.add(name, np.array(0, np.int64), n, np.array(d.random.choice((1, 1, 2)), np.int64), exact=True)


# --- by index


@draws("Gather")
def gather(d, name):
    x = d.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    axis = d.axis(x)
    shape = d.random.choice([(), (1,), (3,), (2, 2)])
    index = np.asarray(d.numbers.integers(-x.shape[axis], x.shape[axis], shape), d.random.choice([np.int64, np.int32]))
    return d.add(name, x, d.given(index) if d.chance(0.4) else index, axis=axis, exact=True)


@draws("GatherElements")
def gather_elements(d, name):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 0)
    axis = d.axis(x)
    sizes = list(x.shape)
    sizes[axis] = d.random.randint(1, 5)
    index = d.numbers.integers(-x.shape[axis], x.shape[axis], sizes)
    return d.add(name, x, d.given(index) if d.chance(0.4) else index, axis=axis, exact=True)


@draws("GatherND")
def gather_nd(d, name):
    x = d.pick(lambda v: v.rank > 1 and v.plain.size > 0)
    depth = d.random.randint(1, x.rank)
    columns = [d.numbers.integers(-x.shape[k], x.shape[k], (3,)) for k in range(depth)]
    return d.add(name, x, np.stack(columns, -1).astype(np.int64), exact=True)


@draws("ScatterElements")
def scatter_elements(d, name):
    x = d.real(least=1)
    axis = d.axis(x)
    shape = tuple(d.random.randint(1, s) for s in x.shape)
    reduction = d.random.choice(["none", "add", "mul", "max", "min"])
    index = d.numbers.integers(0, x.shape[axis], shape)
    if reduction == "none":  # two updates of one element are undefined
        order = np.argsort(d.numbers.random(x.shape), axis=axis)
        index = order[tuple(slice(s) for s in shape)]
    return d.add(name, x, np.asarray(index, np.int64), d.array(shape, x.dtype), axis=axis, reduction=reduction,
                 exact=True)


@draws("ScatterND")
def scatter_nd(d, name):
    x = d.real(least=1)
    rows = d.random.sample(range(x.shape[0]), min(x.shape[0], 2))
    index = np.array(rows, np.int64)[:, None]
    reduction = d.random.choice(["none", "add", "max"])
    return d.add(name, x, index, d.array((len(rows), *x.shape[1:]), x.dtype), reduction=reduction, exact=True)


@draws("TensorScatter")
def tensor_scatter(d, name):
    if d.opset < 24:
        raise Skip
    batch, tokens, most, width = 2, d.random.choice((1, 2)), d.random.choice((4, 6)), 3
    past = d.input((batch, most, width))
    where = d.numbers.integers(0, most - tokens + 1, batch)
    return d.add(name, past, d.array((batch, tokens, width)), where, axis=1, exact=True)


@draws("OneHot")
def one_hot(d, name):
    x = d.pick(lambda v: v.dtype == np.int64 and v.rank < 3 and v.plain.size < 128)
    return d.add(name, x, np.array(5, np.int64), np.array([0, 1], np.float32), axis=-1, exact=True)


# --- sizes that depend on data


@draws("NonZero")
def non_zero(d, name):
    x = d.pick(lambda v: v.exact and v.rank > 0 and v.plain.size < 512)
    return d.add(name, x, exact=True)


@draws("Compress")
def compress(d, name):
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 0)
    axis = d.axis(x)
    keep = d.array((d.random.randint(1, x.shape[axis]),), bool)
    return d.add(name, x, d.given(keep) if d.chance(0.7) else keep, axis=axis, exact=True)


@draws("Unique")
def unique(d, name):
    x = d.pick(lambda v: v.exact and v.rank == 1 and v.plain.size > 0 and v.dtype in (np.float32, np.int64))
    return d.add(name, x, outputs=d.random.randint(1, 4) if d.chance(0.5) else 1, sorted=1, exact=True)


@draws("NonMaxSuppression")
def non_max_suppression(d, name):
    n, batch, classes = d.random.choice((4, 9, 63, 64, 150)), d.random.randint(1, 2), d.random.randint(1, 3)
    corners = d.array((batch, n, 2), low=0, high=d.random.choice((4, 20)))
    boxes = np.concatenate([corners, corners + np.float32(1.5)], -1)
    scores = np.stack([d.numbers.permutation(n) for _ in range(batch * classes)]).astype(np.float32).reshape(batch, classes, n) / np.float32(n)
    most = d.random.choice((2, n - 1))
    return d.add(name, d.given(boxes), d.given(scores), np.array([most], np.int64), np.array([0.4], np.float32),
                 np.array([0.1], np.float32), exact=True)


# --- along axes


EXACT_REDUCTIONS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare", "ReduceProd")


@draws(*EXACT_REDUCTIONS, "ReduceMean", "ReduceL2", "ReduceLogSumExp")
def reduce_some(d, name):
    is_integer = name in ("ReduceSum", "ReduceMax", "ReduceMin") and d.chance(0.2)
    # The mean of no elements is 0 / 0; the reference engines refuse the L2 norm of none.
    may_be_empty = name not in ("ReduceMean", "ReduceL2")
    x = d.pick(lambda v: v.rank > 0 and (v.plain.size > 0 or may_be_empty)
               and (v.dtype in (np.int32, np.int64) if is_integer else v.is_float))
    axes = sorted(d.random.sample(range(-x.rank, 0), d.random.randint(1, x.rank)))
    words = {"keepdims": d.random.randrange(2), "exact": name in EXACT_REDUCTIONS}
    if d.chance(0.1):
        return d.add(name, x, **words)
    return d.add(name, x, np.array(axes, np.int64), **words)


@draws("ReduceLogSum")
def reduce_log_sum(d, name):
    x = d.real(least=1)
    positive = d.add("Add", d.add("Abs", x), np.array(0.5, x.dtype))
    return d.add(name, positive, np.array([d.axis(x)], np.int64), keepdims=d.random.randrange(2))


@draws("ArgMax", "ArgMin")
def arg_reduce(d, name):
    x = d.real(least=1, want=lambda v: v.exact)
    return d.add(name, x, axis=d.axis(x), keepdims=d.random.randrange(2), select_last_index=d.random.randrange(2), exact=True)


@draws("CumSum")
def scan(d, name):
    x = d.real(least=1)
    return d.add(name, x, np.array(d.axis(x), np.int64), exclusive=d.random.randrange(2),
                 reverse=d.random.randrange(2), exact=True)


@draws("TopK")
def top_k(d, name):
    x = d.real(least=1, want=lambda v: v.exact)
    axis = d.axis(x)
    k = np.array([d.random.randint(1, x.shape[axis])], np.int64)
    return d.add(name, x, d.given(k) if d.chance(0.3) else k, outputs=2, axis=axis, largest=d.random.randrange(2), exact=True)


@draws("Softmax", "LogSoftmax", "Hardmax")
def softmax(d, name):
    x = d.real(least=1, want=lambda v: v.exact or name != "Hardmax")
    return d.add(name, x, axis=d.axis(x))


@draws("LayerNormalization")
def layer_norm(d, name):
    x = d.real(least=2)
    axis = d.random.randint(1, x.rank - 1)
    weights = [d.array(x.shape[axis:], x.dtype) for _ in range(d.random.randint(1, 2))]
    return d.add(name, x, *weights, axis=axis - (x.rank if d.chance(0.5) else 0), epsilon=1e-2)


@draws("SimplifiedLayerNormalization")
def simplified_norm(d, name):
    x = d.float(least=2)
    return d.add(name, x, d.array(x.shape[-1:]), axis=-1, epsilon=1e-2)


@draws("RMSNormalization")
def rms_norm(d, name):
    x = d.real(least=2)
    if d.opset < 23:
        raise Skip
    return d.add(name, x, d.array(x.shape[-1:], x.dtype), epsilon=1e-2)


@draws("BatchNormalization", "InstanceNormalization", "GroupNormalization")
def channel_norm(d, name):
    x = d.real(want=lambda v: v.rank in (3, 4))
    c = x.shape[1]
    scale, bias, mean = (d.array((c,), x.dtype) for _ in range(3))
    if name == "BatchNormalization":
        return d.add(name, x, scale, bias, mean, np.abs(d.array((c,), x.dtype)) + np.asarray(0.5, x.dtype))
    if name == "InstanceNormalization":
        return d.add(name, x, scale, bias, epsilon=1e-2)
    groups = d.random.choice([g for g in (1, 2, 4, c) if c % g == 0])
    return d.add(name, x, scale, bias, num_groups=groups, epsilon=1e-2)


@draws("MeanVarianceNormalization")
def mean_variance(d, name):
    x = d.float(4, want=lambda v: v.shape[0] * v.shape[2] * v.shape[3] > 3)
    return d.add(name, x)


@draws("LpNormalization")
def lp_norm(d, name):
    x = d.real(least=1)
    return d.add(name, x, axis=d.axis(x), p=2)  # onnx's reference omits the absolute value for p=1


@draws("LRN")
def lrn(d, name):
    x = d.float(4)
    return d.add(name, x, size=d.random.choice((1, 3, 5)), alpha=0.25, beta=0.75, bias=1.5)


# --- products


@draws("MatMul")
def matmul(d, name):
    x = d.real(least=1)
    k = x.shape[-1]
    try:
        if d.chance(0.6):
            raise Skip
        y = d.pick(lambda v: v.dtype == x.dtype and v.rank > 1 and v.shape[-2] == k
                   and broadcasts(v.shape[:-2], x.shape[:-2]))
    except Skip:
        batch = x.shape[:-2] if d.chance(0.2) else ()
        y = d.weight(d.array((*batch, k, d.random.choice(SIZES)), x.dtype) / np.asarray(4, x.dtype))
    return d.add(name, x, y, exact=True)


@draws("Gemm")
def gemm(d, name):
    x = d.real(2)
    turned, flipped = d.random.randrange(2), d.random.randrange(2)
    k, m = (x.shape[0], x.shape[1]) if turned else (x.shape[1], x.shape[0])
    n = d.random.choice(SIZES)
    w = d.array((n, k) if flipped else (k, n), x.dtype) / np.asarray(4, x.dtype)
    c = [d.array(d.random.choice([(n,), (1,), (m, n), (m, 1)]), x.dtype)] if d.chance(0.8) else []
    return d.add(name, x, w, *c, transA=turned, transB=flipped, alpha=d.random.choice([1.0, 0.5]),
                 beta=d.random.choice([1.0, 2.0]), exact=True)


@draws("Einsum")
def einsum(d, name):
    x = d.real(d.random.choice((2, 3)))
    b, n = d.random.choice((2, 3)), d.random.choice(SIZES[:8])
    if x.rank == 2:
        text, shape = d.random.choice([("ij,jk->ik", (x.shape[1], n)), ("ij,ij->i", x.shape), ("ij,kj->ki", (n, x.shape[1])),
                                       ("ij,ij->", x.shape), ("ij,k->ijk", (n,))])
    else:
        text, shape = d.random.choice([("bij,bjk->bik", (x.shape[0], x.shape[2], n)), ("bij,j->bi", (x.shape[2],)),
                                       ("bij,kj->bki", (n, x.shape[2])), ("...ij,...j->...i", (x.shape[2],)),
                                       ("bij,cjk->bcik", (b, x.shape[2], n))])
    return d.add(name, x, d.array(shape, x.dtype) / np.asarray(4, x.dtype), equation=text, exact=True)


@draws("Det")
def det(d, name):
    n = d.random.choice((2, 3))
    return d.add(name, d.input((d.random.choice((1, 2)), n, n)))


# --- windows


def window_words(d, sizes):
    """Returns kernel_shape, strides and pads that fit."""
    kernel = [d.random.choice([k for k in (1, 2, 3, 5) if k <= size]) for size in sizes]
    words = {"kernel_shape": kernel, "strides": [d.random.choice((1, 1, 2)) for _ in kernel]}
    words["pads"] = [d.random.randrange(k) for k in kernel + kernel]
    return words


def picture(d, ranks=(3, 4), least=None, most=1024, dtype=None):
    least = d.random.choice((1, 3)) if least is None else least
    return d.real(want=lambda v: v.rank in ranks and v.plain.size <= most and min(v.shape[2:]) >= least
                  and (dtype is None or v.dtype == dtype))


def many_channels(d):
    """Returns a picture with enough channels to fill vectors."""
    return d.input((d.random.choice((1, 2)), d.random.choice((16, 21, 32)), *d.random.choice(((11,), (5, 7)))))


@draws("Conv")
def conv(d, name):
    x = many_channels(d) if d.chance(0.15) else picture(d)
    c = x.shape[1]
    groups = d.random.choice([g for g in (1, 1, 2, 4, 8, c) if c % g == 0])
    out = groups * d.random.choice((1, 2, 3, 8))
    words = window_words(d, x.shape[2:])
    words["dilations"] = [d.random.choice((1, 1, 2)) for _ in x.shape[2:]]
    if d.chance(0.15):
        del words["pads"]
        words["auto_pad"] = d.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    w = d.array((out, c // groups, *words["kernel_shape"]), x.dtype) / np.asarray(4, x.dtype)
    bias = [d.array((out,), x.dtype)] if d.chance(0.7) else []
    return d.add(name, x, w, *bias, group=groups, exact=True, **words)


@draws("ConvTranspose")
def conv_transpose(d, name):
    x = many_channels(d) if d.chance(0.2) else picture(d, most=600)
    c = x.shape[1]
    groups = d.random.choice([g for g in (1, 1, 2) if c % g == 0])
    words = window_words(d, x.shape[2:])
    w = d.array((c, d.random.choice((1, 3, 3, 6)), *words["kernel_shape"]), x.dtype) / np.asarray(4, x.dtype)
    return d.add(name, x, w, group=groups, exact=True, **words)


@draws("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d, name):
    return d.add(name, picture(d, least=1))


@draws("MaxPool", "AveragePool", "LpPool")
def pool(d, name):
    x = picture(d)
    words = window_words(d, x.shape[2:])
    if name == "LpPool":
        return d.add(name, x, p=2, kernel_shape=words["kernel_shape"], strides=words["strides"])
    if d.chance(0.25):
        words["ceil_mode"] = 1
    if name == "MaxPool":
        if d.chance(0.2) and x.exact:
            return d.add(name, x, outputs=2, exact=True, **words)
        return d.add(name, x, exact=True, **words)
    return d.add(name, x, count_include_pad=d.random.randrange(2), **words)


RESIZES = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"},
]


@draws("Resize", "Upsample")
def resize(d, name):
    x = picture(d, (4,), 1, 600, np.float32)
    words = d.random.choice(RESIZES)
    if name == "Upsample" or d.chance(0.6):
        return d.add("Resize", x, None, np.array([1, 1, 2, d.random.choice((0.5, 1.0, 2.0))], np.float32), **words)
    sizes = [x.shape[0], x.shape[1], d.random.choice((1, 3, 6)), d.random.choice((2, 5))]
    return d.add(name, x, None, None, np.array(sizes, np.int64), **words)


@draws("GridSample")
def grid_sample(d, name):
    x = picture(d, (4,), 2, 600, np.float32)
    grid = d.array((x.shape[0], 3, 4, 2)) / np.float32(4.37)  # never half way between two pixels
    return d.add(name, x, grid, mode=d.random.choice(["linear", "nearest", "cubic"]), align_corners=d.random.randrange(2),
                 padding_mode=d.random.choice(["zeros", "border", "reflection"]))


@draws("Col2Im")
def col2im(d, name):
    return d.add(name, d.input((1, 2 * 4, 4)), np.array([3, 3], np.int64), np.array([2, 2], np.int64), exact=True)


# --- attention and recurrences


@draws("Attention")
def attention(d, name):
    if d.opset < 23:
        raise Skip
    batch, heads, kv, size = d.random.choice((1, 2)), 4, d.random.choice((1, 2, 4)), d.random.choice((4, 8))
    queries, keys = d.random.choice((1, 3, 5)), d.random.choice((3, 5, 7))
    dtype = d.random.choice([np.float32, np.float32, np.float16])
    q = d.input((batch, heads, queries, size), dtype)
    k, v = (d.input((batch, kv, keys, size), dtype) for _ in range(2))
    mask = [d.array((queries, keys), d.random.choice([dtype, bool]))] if d.chance(0.4) else []
    if mask and mask[0].dtype == bool:
        mask[0][:, 0] = True
    words = {"is_causal": 1} if d.chance(0.3) and not mask and keys >= queries else {}
    if d.chance(0.3):
        words["softcap"] = 4.0
    if d.chance(0.4):
        words["scale"] = 0.25
    return d.add(name, q, k, v, *mask, **words)


@draws("RotaryEmbedding")
def rotary(d, name):
    if d.opset < 23:
        raise Skip
    batch, heads, tokens, size = 2, 2, 3, 8
    x = d.input((batch, heads, tokens, size))
    angles = d.array((10, size // 2))
    where = d.numbers.integers(0, 10, (batch, tokens))
    return d.add(name, x, np.cos(angles), np.sin(angles), where, interleaved=d.random.randrange(2))


@draws("LSTM", "GRU", "RNN")
def recurrent(d, name):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    steps, batch, width, hidden = d.random.choice((1, 3, 6, 70)), d.random.choice((1, 2)), 3, d.random.choice((2, 5))
    direction = d.random.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    x = d.input((steps, batch, width))
    w, r = (d.array((ways, gates * hidden, n)) / np.float32(8) for n in (width, hidden))
    more = [d.array((ways, 2 * gates * hidden)) / np.float32(4)] if d.chance(0.7) else []
    if more and d.chance(0.4):
        more.append(d.numbers.integers(1, steps + 1, batch).astype(np.int32))
    words = {"linear_before_reset": d.random.randrange(2)} if name == "GRU" else {}
    if steps < 70 and d.chance(0.3):
        words |= activations_of(d, ways * {"LSTM": 3, "GRU": 2, "RNN": 1}[name])
    return d.add(name, x, w, r, *more, outputs=2, hidden_size=hidden, direction=direction, **words)


def activations_of(d, count):
    """Draws functions; those that have an alpha or a beta take it from a list of their own."""
    parameters = {"Sigmoid": 0, "Tanh": 0, "Softsign": 0, "Elu": 1, "LeakyRelu": 1, "HardSigmoid": 2, "ScaledTanh": 2}
    names = [d.random.choice(list(parameters)) for _ in range(count)]
    words = {"activations": names}
    for least, word in (1, "activation_alpha"), (2, "activation_beta"):
        if users := sum(parameters[name] >= least for name in names):
            words[word] = [d.random.choice((0.125, 0.25, 0.5)) for _ in range(users)]
    return words


# --- quantised


def zero_point(d):
    return np.array(*d.random.choice([(0, np.int8), (3, np.uint8), (-5, np.int8)]))


@draws("QuantizeLinear")
def quantise(d, name):
    x = d.real(want=lambda v: v.exact and v.dtype in (np.float32, np.float16))
    if d.chance(0.3) and x.rank > 1:
        axis = d.random.randrange(x.rank)
        scale = np.full(x.shape[axis], 0.25, x.dtype)
        return d.add(name, x, scale, np.full(x.shape[axis], 2, np.int8), axis=axis, exact=True)
    return d.add(name, x, np.array(0.25, x.dtype), zero_point(d), exact=True)


@draws("DequantizeLinear")
def dequantise(d, name):
    x = d.pick(lambda v: v.dtype in (np.int8, np.uint8, np.int32) and v.rank < 5)
    zero = [] if x.dtype == np.int32 else [np.array(2, x.dtype)]
    return d.add(name, x, np.array(0.125, np.float32), *zero, exact=True)


@draws("DynamicQuantizeLinear")
def dynamic_quantise(d, name):
    # With these ends of the range, DynamicQuantizeLinear computes a scale of 1.
    x = np.concatenate([d.array((3, 5)).ravel(), np.array([-4, 4], np.float32) * 127.5 / 4])
    return d.add(name, d.given(x.astype(np.float32)), outputs=3, exact=True)


@draws("MatMulInteger")
def matmul_integer(d, name):
    a, b = d.random.choice([np.uint8, np.int8]), d.random.choice([np.uint8, np.int8])
    x = d.input((d.random.choice((1, 4, 7)), 16), a)
    zeros = [np.array(1, a), np.array(2, b)] if d.chance(0.7) else []
    return d.add(name, x, d.array((16, d.random.choice(SIZES[:8])), b), *zeros, exact=True)


@draws("ConvInteger")
def conv_integer(d, name):
    x = d.input((1, 3, 6, 5), np.uint8)
    return d.add(name, x, d.array((4, 3, 3, 3), np.uint8), np.array(1, np.uint8), exact=True, pads=[1, 1, 0, 0])


@draws("QLinearMatMul")
def qlinear_matmul(d, name):
    """Scales whose products are half-way values for many sums; all operands may be inputs, so that any size may be open."""
    k, (a, b, y) = d.random.choice((8, 33)), d.random.choice(((0.5, 0.5, 1), (0.1, 0.2, 0.04), (0.01, 0.03, 0.0024)))
    x, w = d.input((3, k), np.uint8), d.array((k, 5), np.uint8)
    zero = np.array(3, np.uint8)
    scales = [np.array(scale, np.float32) for scale in (a, b, y)]
    return d.add(name, x, scales[0], zero, d.given(w) if d.chance(0.5) else d.weight(w), scales[1], zero, scales[2], zero, exact=True)


@draws("QLinearConv")
def qlinear_conv(d, name):
    x = d.input((1, 3, 6, 5), np.uint8)
    half, zero = np.array(0.5, np.float32), np.array(3, np.uint8)
    w = d.weight(d.array((4, 3, 3, 3), np.int8))
    return d.add(name, x, half, zero, w, half, np.array(0, np.int8), np.array(1.0, np.float32), zero, pads=[1, 1, 1, 1], exact=True)
