# SPDX-License-Identifier: Apache-2.0
"""The patterns that each pass looks for, in the form in which exporters write them. They are inserted into random
graphs."""

import contextlib

import microsoft
import numpy as np
from control import graph_of, make_loop, placed, port, run_steps
from draw import LONG_ELEMENTS, MOST_ELEMENTS, Skip
from onnx import helper


def f32(number):
    return np.array(number, np.float32)


def rows(d, rank=None):
    return d.float(rank, 1)


# --- raise_composites


def spelt_softmax(d):
    x = rows(d)
    axis = np.array([-1], np.int64)
    e = d.add("Exp", d.add("Sub", x, d.add("ReduceMax", x, axis)))
    return d.add("Div", e, d.add("ReduceSum", e, axis))


def spelt_layer_norm(d):
    x = rows(d)
    axis = np.array([-1], np.int64)
    y = d.add("Sub", x, d.add("ReduceMean", x, axis))
    square = d.add("Mul", y, y) if d.random.random() < 0.5 else d.add("Pow", y, f32(2))
    root = d.add("Sqrt", d.add("Add", d.add("ReduceMean", square, axis), f32(0.01)))
    return d.add("Div", y, root) if d.random.random() < 0.5 else d.add("Mul", y, d.add("Reciprocal", root))


def spelt_rms_norm(d):
    x = rows(d)
    mean = d.add("ReduceMean", d.add("Mul", x, x), np.array([-1], np.int64))
    return d.add("Mul", x, d.add("Div", f32(1), d.add("Sqrt", d.add("Add", mean, f32(0.01)))))


def masked_scores(d, scores, batch, queries, keys):
    """Adds up to two masks to attention scores [*batch, queries, keys], replaces unseen ones, or caps all."""
    kind = d.random.randrange(5)
    if kind in (1, 2):
        for _ in range(kind):
            sizes = tuple(n if d.random.random() < 0.6 else 1 for n in (*batch, queries, keys))
            scores = d.add("Add", scores, d.array(sizes[d.random.randrange(max(len(batch), 1)) :]))
    if kind == 3:
        seen = np.tril(np.ones((queries, keys), bool), keys - queries if keys >= queries else 0)
        seen[:, 0] = True
        low = d.random.choice((-1e9, -9999, -3.4e38, -np.inf))
        added = d.array((queries, keys))
        added[:, 1:][d.numbers.random((queries, keys - 1)) < 0.2] = low
        before, after = d.chance(0.25), d.chance(0.25)  # an added mask, which hides keys too
        scores = d.add("Add", scores, added) if before else scores
        scores = d.add("Where", d.weight(seen), scores, f32(low))
        scores = d.add("Add", scores, added) if after else scores
        if d.chance(0.4):  # a second mask, which leaves a key to each query; with a finite number, a third hides whole rows
            seen = d.numbers.random((*batch[-1:], 1, keys)) < 0.7
            seen[..., 0] = True
            scores = d.add("Where", d.weight(seen), scores, f32(low if d.chance(0.7) else -1e9))
        if np.isfinite(low) and d.chance(0.3):
            scores = d.add("Where", d.weight(d.array((queries, 1), bool)), scores, f32(low))
    if kind == 4:
        scores = d.add("Mul", d.add("Tanh", scores), f32(4))
    return scores


def spelt_attention(d):
    heads, queries, keys, width = d.random.choice([(2, 3, 5, 4), (1, 8, 8, 16), (3, 1, 7, 8), (4, 17, 17, 4)])
    images = d.random.choice([1, 1, 2, heads])
    batch = d.random.choice([(images, heads)] * 3 + [(heads,), (images, 3, heads), (2, images, 2, heads)])
    last = len(batch)
    swapped = [*range(last), last + 1, last]
    q, k, v = (d.input((*batch, n, width)) for n in (queries, keys, keys))
    if d.random.random() < 0.5:
        k = d.add("Transpose", d.add("Transpose", k, perm=swapped), perm=swapped)
    if d.random.random() < 0.3:
        q = d.add("Mul", q, f32(0.5))
    if d.random.random() < 0.3:
        k = d.add("Mul", k, f32(0.5))
    scores = d.add("MatMul", q, d.add("Transpose", k, perm=swapped))
    scores = d.add("Mul", scores, f32(0.25)) if d.random.random() < 0.5 else d.add("Div", scores, f32(2))
    d.hides = True
    try:
        scores = masked_scores(d, scores, batch, queries, keys)
    finally:
        d.hides = False
    result = d.add("MatMul", d.add("Softmax", scores, axis=-1), v)
    if result.shape != (*batch, queries, width):
        raise Skip
    tokens_first = d.add("Transpose", result, perm=[*range(last - 1), last, last - 1, last + 1])
    return d.add("Reshape", tokens_first, np.array([*batch[:-1], queries, heads * width], np.int64))


# --- merge_branches


def branches(d):
    """Draws a sum of convolutions of one value, with scales and biases per channel and perhaps the value itself."""
    channels, axes = d.random.choice([(4, 2), (6, 2), (4, 1)])
    groups = d.random.choice([1, 1, 2, channels])
    dilation, stride = d.random.choice([(1, 1), (1, 1), (2, 1), (1, 2)])
    x = d.input((2, channels, *d.random.choice([(9, 7), (5, 6), (8, 8)])[:axes]))

    def scaled(y):
        for name in ("Mul", "Add"):
            if d.random.random() < 0.7:
                y = d.add(name, y, d.array((channels, *[1] * axes)))
        return y

    terms = []
    for taps in d.random.choice([(3, 1), (3, 3), (5, 3, 1), (1, 3)]):
        w = d.array((channels, channels // groups, *[taps] * axes))
        pads = [taps // 2 * dilation] * 2 * axes
        terms.append(scaled(d.add("Conv", x, w, pads=pads, dilations=[dilation] * axes, strides=[stride] * axes, group=groups)))
    if stride == 1 and d.random.random() < 0.5:
        terms.append(scaled(x))
    d.random.shuffle(terms)
    y = terms[0]
    for term in terms[1:]:
        y = d.add("Add", y, term)
    return y


# --- simplify_algebra


def algebra(d):
    x = rows(d)
    return d.random.choice([
        lambda: d.add("Add", x, f32(0)),
        lambda: d.add("Mul", d.add("Mul", x, f32(2)), f32(0.25)),
        lambda: d.add("Sub", d.add("Add", x, f32(1)), f32(0.5)),
        lambda: d.add("Add", d.add("Add", x, f32(1.5)), f32(-0.5)),
        lambda: d.add("Neg", d.add("Neg", x)),
        lambda: d.add("Add", x, d.add("Neg", x)),
        lambda: d.add("Sub", x, d.add("Neg", x)),
        lambda: d.add("Div", x, f32(4)),
        lambda: d.add("Div", x, d.add("Sqrt", d.add("Add", d.add("Abs", x), f32(1)))),
        lambda: d.add("Max", x, f32(0)),
        lambda: d.add("Relu", d.add("Relu", x)),
        lambda: d.add("Div", f32(1), d.add("Add", d.add("Exp", d.add("Neg", x)), f32(1))),
        lambda: d.add("Reciprocal", d.add("Sqrt", d.add("Add", d.add("Abs", x), f32(1)))),
        lambda: d.add("Mul", x, f32(-1)),
    ])()


def spelt_gelu(d):
    x = rows(d)
    if d.random.random() < 0.5:
        inner = d.add("Erf", d.add("Div", x, f32(2**0.5)))
        return d.add("Mul", d.add("Mul", x, d.add("Add", inner, f32(1))), f32(0.5))
    cube = d.add("Mul", d.add("Pow", x, f32(3)), f32(0.044715))
    inner = d.add("Tanh", d.add("Mul", d.add("Add", x, cube), f32(0.7978845608)))
    return d.add("Mul", d.add("Mul", x, f32(0.5)), d.add("Add", inner, f32(1)))


def silu(d):
    x = rows(d)
    return d.add("Mul", x, d.add("Sigmoid", x))


# --- canonicalise_views


def view_chain(d):
    x = d.pick(lambda v: v.rank > 1 and v.plain.size > 0)
    for _ in range(d.random.randint(2, 4)):
        if d.random.random() < 0.5 and x.rank > 1:
            order = list(range(x.rank))
            d.random.shuffle(order)
            x = d.add("Transpose", x, perm=order, exact=True)
        else:
            sizes = [s for s in x.shape if s != 1] + [1]
            d.random.shuffle(sizes)
            if len(sizes) > 2:
                sizes[:2] = [sizes[0] * sizes[1]]
            x = d.add("Reshape", x, np.array(sizes, np.int64), exact=True)
    return x


def nested_slices(d):
    x = d.pick(lambda v: v.rank > 0 and max(v.shape) > 4)
    axis = x.shape.index(max(x.shape))
    lists = [[1], [1 << 40], [axis], [d.random.choice((1, 2))]]
    x = d.add("Slice", x, *[np.array(words, np.int64) for words in lists], exact=True)
    lists = [[0], [-1], [axis], [d.random.choice((1, 2))]]
    return d.add("Slice", x, *[np.array(words, np.int64) for words in lists], exact=True)


def broadcast_then_function(d):
    x, y = d.array((1, 5)), d.array((3, 1, 1))
    a = d.add("Expand", d.weight(x), np.array([3, 4, 5], np.int64), exact=True)
    b = d.add("Expand", d.weight(y), np.array([3, 4, 5], np.int64), exact=True)
    return d.add("Add", d.add("Mul", a, b, exact=True), d.input((3, 4, 5)), exact=True)


# --- merge_common, fold_constants, simplify_indices


def twice_the_same(d):
    x = rows(d)
    return d.add("Add", d.add("Tanh", x), d.add("Mul", d.add("Tanh", x), f32(2)))


def of_constants(d):
    a = d.add("Mul", d.weight(d.array((3, 4))), d.weight(d.array((4,))), exact=True)
    return d.add("MatMul", d.input((2, 3)), a, exact=True)


def computed_shape(d):
    x = d.pick(lambda v: v.rank > 1 and v.plain.size > 0)
    first = d.add("Gather", d.add("Shape", x), np.array(0, np.int64), axis=0)
    sizes = d.add("Concat", d.add("Unsqueeze", first, np.array([0], np.int64)), np.array([-1], np.int64), axis=0)
    return d.add("Reshape", x, sizes, exact=True)


def slice_by_size(d):
    """Returns a slice with a bound computed from the axis' size, which may come out below 0: it then counts from the end."""
    x = d.pick(lambda v: v.rank > 0 and v.plain.size > 0)
    axis = d.random.randrange(x.rank)
    size = d.add("Slice", d.add("Shape", x), np.array([axis]), np.array([axis + 1]), exact=True)
    bound = d.add("Sub", size, np.array([d.random.choice((0, 1, 2, 5, 9))]), exact=True)
    forwards = d.chance(0.7)
    step, far = (d.random.choice((1, 1, 2)), 1 << 62) if forwards else (-1, -(1 << 62))
    lists = (bound, np.array([far])) if forwards and d.chance(0.6) else (np.array([0 if forwards else -1]), bound)
    return d.add("Slice", x, *lists, np.array([axis]), np.array([step]), exact=True)


def with_its_first(d):
    """Returns an operator on x and x's first elements along an axis, which broadcast; and perhaps on an input, so that
    open sizes meet that may be 1."""
    x = rows(d)
    axis = d.random.randrange(x.rank)
    first = d.add("Slice", x, np.array([0]), np.array([1]), np.array([axis]), exact=True)
    y = d.add(d.random.choice(("Add", "Sub", "Mul", "Max")), *((x, first) if d.chance(0.5) else (first, x)), exact=True)
    if d.chance(0.5):
        y = d.add("Where", d.input(x.shape[-1:], bool), y, first, exact=True)
    if d.chance(0.5):
        y = d.add("Add", y, d.input([size if d.chance(0.6) else 1 for size in x.shape]), exact=True)
    if d.chance(0.3):
        y = d.add("Expand", d.input(y.shape[-1:]), d.add("Shape", y), exact=True)
    return y


def chosen_meet(d):
    """Returns an operator on rows that data choose, and on as many, on one, or on an input: a size that the run computes
    is broadcast, or not."""
    x = rows(d)
    size = x.shape[0]
    count = d.random.randint(1, size)

    def chosen(n):
        return d.add("Compress", x, d.given(np.array(d.random.sample([True] * n + [False] * (size - n), size))), axis=0, exact=True)

    y = chosen(count)
    how = d.random.choice(("as many", "one", "an input", "Expand", "MatMul"))
    if how == "Expand":
        return d.add("Expand", d.input((d.random.choice((1, count)), *x.shape[1:])), d.add("Shape", y), exact=True)
    if how == "MatMul":
        return d.add("MatMul", d.add("Unsqueeze", y, np.array([-1])), d.input((d.random.choice((1, count)), *[1] * (x.rank - 1), 1, 3)))
    other = {"as many": lambda: chosen(count), "one": lambda: chosen(1),
             "an input": lambda: d.input((d.random.choice((1, count)), *x.shape[1:]), x.dtype)}[how]()
    y = d.add(d.random.choice(("Add", "Sub", "Mul", "Max")), *((y, other) if d.chance(0.5) else (other, y)), exact=True)
    return d.add("Where", d.add("Less", y, other), y, other, exact=True) if d.chance(0.3) else y


def positions(d):
    x = rows(d, 2)
    n = d.add("Gather", d.add("Shape", x), np.array(1, np.int64), axis=0)
    row = d.add("Range", d.weight(np.array(0, np.int64)), n, d.weight(np.array(1, np.int64)))
    seen = d.add("Less", d.add("Add", row, np.array(1, np.int64)), n)
    return d.add("Where", seen, x, f32(-1), exact=True)


def every_position(d):
    """Returns x indexed by two aranges i and j, as PyTorch exports it; the result equals x or its transpose."""
    n, m = d.random.choice([(3, 3), (2, 5), (4, 4)])
    x = d.input((n, m))
    zero, one = d.weight(np.array(0, np.int64)), d.weight(np.array(1, np.int64))
    sizes = d.add("Shape", x)
    rows = d.add("Range", zero, d.add("Gather", sizes, zero, axis=0), one)
    columns = d.add("Range", zero, d.add("Gather", sizes, one, axis=0), one)
    turned = n == m and d.random.random() < 0.5
    shape = np.array([n, m, 1], np.int64)
    i = d.add("Expand", d.add("Reshape", rows, np.array([1, -1, 1] if turned else [-1, 1, 1], np.int64)), shape)
    j = d.add("Expand", d.add("Reshape", columns, np.array([-1, 1, 1] if turned else [1, -1, 1], np.int64)), shape)
    return d.add("GatherND", x, d.add("Concat", i, j, axis=-1), exact=True)


# --- channels_last, rows_last


def conv_block(d):
    c = d.random.choice((2, 3, 8))
    x = d.input((d.random.choice((1, 2)), c, d.random.choice((5, 8)), d.random.choice((4, 7))))
    y = d.add("Conv", x, d.array((c, c, 3, 3)) / f32(8), pads=[1, 1, 1, 1])
    if d.random.random() < 0.5:
        y = d.add("BatchNormalization", y, d.array((c,)), d.array((c,)), d.array((c,)), np.abs(d.array((c,))) + f32(0.5))
    y = d.add("Relu", y)
    if d.random.random() < 0.5:
        y = d.add("Conv", y, d.array((c, 1, 3, 3)) / f32(4), pads=[1, 1, 1, 1], group=c)
    y = d.add("Add", y, x)
    if d.chance(0.2):
        return d.add("Resize", y, None, np.array([1, 1, 2, d.random.choice((1.5, 3))], np.float32), mode=d.random.choice(("linear", "nearest")))
    return d.add("Concat", y, d.add("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), axis=1)


def squeeze_excite(d):
    c = d.random.choice((4, 8))
    x = d.input((1, c, 6, 5))
    s = d.add("GlobalAveragePool", x)
    s = d.add("HardSigmoid", d.add("Conv", d.add("Relu", d.add("Conv", s, d.array((2, c, 1, 1)))), d.array((c, 2, 1, 1))))
    return d.add("Mul", x, s)


def shuffled_channels(d):
    """Returns a unit of ShuffleNet: groups of channels are joined and interleaved; one half goes on to a convolution."""
    batch, groups, c, sides = d.random.choice((1, 2)), d.random.choice((2, 2, 4)), d.random.choice((2, 3, 8)), d.random.choice([(5, 4), (6, 6)])
    x = d.input((batch, c, *sides))
    y, z = (d.add("Conv", x, d.array((c, c, 1, 1)) / f32(4)) for _ in range(2))
    parts = [d.random.choice((x, y, z)) for _ in range(groups - 1)] + [d.add("Relu", y)]
    d.random.shuffle(parts)
    split = d.add("Reshape", d.add("Concat", *parts, axis=1), np.array((batch, groups, c, *sides), np.int64))
    joined = d.add("Reshape", d.add("Transpose", split, perm=[0, 2, 1, 3, 4]), np.array((batch, groups * c, *sides), np.int64))
    first, second = d.add("Split", joined, outputs=2, axis=1, num_outputs=2)
    c = groups * c // 2
    return d.add("Concat", first, d.add("Conv", second, d.array((c, c, 1, 1)) / f32(4)), axis=1)


# --- gather_sums


def overlapping_blocks(d):
    """Returns an image as the sum of blocks that overlap, or a sum by scattering to fixed places."""
    if d.random.random() < 0.5:
        sides, kernel, step = d.random.choice([(6, 7), (8, 5)]), d.random.choice((1, 2, 3)), d.random.choice((1, 2, 3))
        count = np.prod([(side - kernel) // step + 1 for side in sides])
        x = d.input((d.random.choice((1, 2)), 3 * kernel**2, int(count)))
        return d.add("Col2Im", x, np.array(sides, np.int64), np.array([kernel] * 2, np.int64), strides=[step] * 2, exact=True)
    lines, size = d.random.choice((2, 3, 3)), d.random.choice((4, 9))
    places = d.add("Expand", d.numbers.integers(-size, size, (1, 9)).astype(np.int64), np.array((lines, 9), np.int64))
    return d.add("ScatterElements", d.input((3, size)), places, d.input((lines, 9)), axis=1, reduction="add", exact=True)


def along_first_axis(d):
    x = d.input(d.random.choice([(5, 4), (3, 4, 5)]))
    return d.add("Softmax", x, axis=0) if d.random.random() < 0.5 else d.add("ReduceSum", x, np.array([0], np.int64))


# --- expand_quantize


def fake_quantised(d):
    x = d.pick(lambda v: v.dtype == np.float32 and v.exact and v.plain.size > 0)
    zero = np.array(1, d.random.choice([np.int8, np.uint8]))
    q = d.add("QuantizeLinear", x, f32(0.25), zero, exact=True)
    return d.add("DequantizeLinear", q, f32(0.25), zero, exact=True)


def quantised_matmul(d):
    x = d.input((d.random.choice((1, 4, 7)), 16))
    zero, wzero = np.array(128, np.uint8), np.array(0, np.int8)
    a = d.add("DequantizeLinear", d.add("QuantizeLinear", x, f32(0.25), zero, exact=True), f32(0.25), zero, exact=True)
    w = d.add("DequantizeLinear", d.weight(d.array((16, 9), np.int8)), f32(0.125), wzero, exact=True)
    return d.add("MatMul", a, w, exact=True)


# --- integer_products, fold_scales


def between_quanta(d, x, scale=0.25, zero=128, dtype=np.uint8):
    zero = np.array(zero, dtype)
    return d.add("DequantizeLinear", d.add("QuantizeLinear", x, f32(scale), zero, exact=True), f32(scale), zero, exact=True)


def quantised_conv(d):
    """Returns a convolution as quantisers write it: every tensor in a QDQ pair, the bias in i32."""
    c, out = d.random.choice((1, 3, 4)), d.random.choice((2, 8))
    x = between_quanta(d, d.input((1, c, 6, 5)))
    axis = {"axis": 0} if d.chance(0.5) else {}
    scale = np.full(out, 0.125, np.float32) if axis else f32(0.125)
    zero = np.zeros(out, np.int8) if axis else np.array(0, np.int8)
    w = d.add("DequantizeLinear", d.weight(d.array((out, c, 3, 3), np.int8)), scale, zero, exact=True, **axis)
    bias = [d.add("DequantizeLinear", d.weight(d.array((out,), np.int32)), f32(0.25 * 0.125), exact=True)] if d.chance(0.7) else []
    y = d.add("Conv", x, w, *bias, pads=[1, 1, 1, 1], exact=True)
    if d.chance(0.5):
        y = d.add("Relu", y, exact=True)
    y = between_quanta(d, y, d.random.choice((0.5, 1.0, 4.0)), 0 if d.chance(0.5) else 101)
    return d.add("MaxPool", y, kernel_shape=[2, 2], exact=True) if d.chance(0.5) else y


def quantised_product(d, x):
    y = between_quanta(d, x, 0.25, 0, np.int8)
    w = d.add("DequantizeLinear", d.weight(d.array((16, 8), np.int8)), f32(0.125), np.array(0, np.int8), exact=True)
    return d.add("MatMul", y, w, exact=True)


def quantised_sum(d):
    """Returns the quantised sum of a product and a bias, or of two products. Each product has a scale factor of its
    own."""
    x = d.input((2, 16))
    other = d.weight(d.array((8,))) if d.chance(0.5) else quantised_product(d, d.input((2, 16)))
    y = d.add("Add", quantised_product(d, x), other, exact=True)
    scale = d.random.choice((0.5, 2.0, 4.0))
    if d.chance(0.3):  # per column, with equal scales
        return d.add("QuantizeLinear", y, np.full(8, scale, np.float32), d.array((8,), np.int8), axis=1, exact=True)
    return d.add("QuantizeLinear", y, f32(scale), np.array(3, np.int8), exact=True)


# --- inline_control, hoist_invariants


def known_branch(d):
    """Returns an If whose condition is a constant, as exporters write flags: the pass keeps only the branch taken."""
    yes, no = d.inner(), d.inner()
    x = rows(d)
    a, b = yes.add("Tanh", x), no.add("Abs", x, exact=True)
    holds = d.weight(np.array(d.chance(0.5)))
    node = helper.make_node("If", [holds.name], d.fresh(1), then_branch=graph_of(yes, "yes", [], [port(a)]),
                            else_branch=graph_of(no, "no", [], [port(b)]))

    def compute(known):
        body, result = (yes, a) if known[holds.name][0] else (no, b)
        plain, wide = run_steps(body.steps, known)[result.name]
        return [plain], [wide]

    return placed(d, node, compute, [False])


def same_on_every_trip(d):
    """Returns a Loop of 2 or 100 trips. Its body repeats a computation that no trip changes, and passes a value
    through."""
    x = d.input((d.random.choice((1, 2, 4)), d.random.choice((2, 3))))
    start, bias = d.input((x.shape[0], 3)), d.input((x.shape[0], 3))

    def build(own):
        number, goes_on, state, kept = own
        body = d.inner()
        fixed = body.add("Tanh", body.add("MatMul", x, d.weight(d.array((x.shape[1], 3)) / f32(8))))
        fixed = body.add("Add", fixed, kept)
        after = body.add("Mul", body.add("Tanh", body.add("Add", state, fixed)), f32(0.5))
        return body, body.add("Identity", goes_on, exact=True), [after, body.add("Identity", kept, exact=True)], []

    return make_loop(d, d.random.choice((2, 2, 100)), [start, bias], build, known=0.8)


# --- expand_grouped, mask_ranges, expand_block_dots, expand_attention


def mixture(d):
    return microsoft.experts(d, "MoE")


def cached_attention(d):
    return microsoft.group_query(d, "GroupQueryAttention")


def few_bits(d):
    return microsoft.nbits(d, "MatMulNBits")


def attention_in_f64(d):
    if d.opset < 23:
        raise Skip
    q, k, v = (d.input((1, 2, n, 4), np.float64) for n in (3, 5, 5))
    return d.add("Attention", q, k, v)


# --- divide_products


def unit_vectors(d):
    """Returns attention between channels, with queries and keys of length 1. Its result is stored transposed."""
    b, tokens, heads, wide = d.random.choice((1, 2)), d.random.choice((3, 8, 9)), d.random.choice((1, 2)), d.random.choice((2, 4, 8))
    x, parts = d.input((b, tokens, 5)), []
    for number in range(3):
        weights = d.array((5, heads * wide)) / f32(8)
        weights[:, d.random.randrange(heads * wide)] = 0  # a channel of zeros has no direction
        v = d.add("MatMul", x, d.weight(weights))
        v = d.add("Transpose", d.add("Reshape", v, np.array([b, tokens, heads, wide], np.int64)), perm=[0, 2, 3, 1])
        if number < 2:
            length = d.add("Sqrt", d.add("ReduceSum", d.add("Mul", v, v), np.array([3], np.int64), keepdims=1))
            v = d.add("Div", v, d.add("Max", length, f32(d.random.choice((0.5, 1e-12)))))
        parts.append(v)
    y = d.add("MatMul", parts[0], d.add("Transpose", parts[1], perm=[0, 1, 3, 2]))
    y = d.add("MatMul", d.add("Softmax", y, axis=3), parts[2])
    y = d.add("Reshape", d.add("Transpose", y, perm=[0, 3, 1, 2]), np.array([b, tokens, heads * wide], np.int64))
    return d.add("MatMul", y, d.weight(d.array((heads * wide, 3)) / f32(8)))


# --- sums along the axis that is dense in memory, on GPUs


def turned_sum(d):
    """Returns a reduction over an axis that is not dense; another operator reads it."""
    x = d.input(d.random.choice([(5, 16), (1, 16), (2, 5, 8), (2, 3, 5, 17)]))
    turned = d.add("Transpose", x, perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2], exact=True)
    turned = d.add("Abs", turned, exact=True) if d.chance(0.7) else turned
    y = d.add(d.random.choice(("ReduceSum", "ReduceMax")), turned, np.array([-1], np.int64), keepdims=d.random.randrange(2), exact=True)
    return d.add("CumSum", y, np.array(0, np.int64))


# --- few long rows: many blocks of a GPU share each row


@contextlib.contextmanager
def long_values(d):
    """Opens a context in which values may be long. Long values are removed from the drawing when it ends, because nodes
    that read them would need other long operands."""
    before, d.most = len(d.values), LONG_ELEMENTS
    try:
        yield
    finally:
        d.most = MOST_ELEMENTS
        d.values[before:] = [value for value in d.values[before:] if value.plain.size <= MOST_ELEMENTS]


def long_rows(d):
    """Returns a reduction, a softmax or a norm of long rows; elementwise operators may precede and follow it."""
    n, c, length = d.random.choice((1, 3)), d.random.choice((1, 5, 24)), d.random.randint(16384, 20001)
    shape = d.random.choice([(n, length), (n, length // 10, c), (length,)])
    op = d.random.choice(("ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2", "ArgMax", "Softmax", "LayerNormalization"))
    axis = 0 if len(shape) == 1 else 1
    with long_values(d):
        x = d.add("Abs", d.input(shape), exact=True) if d.chance(0.5) else d.input(shape)
        if op.startswith("Reduce"):
            exact = op in ("ReduceMax", "ReduceSum")
            y = d.add(op, x, np.array([axis], np.int64), keepdims=d.random.randrange(2), exact=exact)
        elif op == "ArgMax":
            return d.add(op, x, axis=axis, select_last_index=d.random.randrange(2), exact=True)
        elif op == "Softmax":
            y = d.add(op, x, axis=axis)
        else:
            y = d.add(op, x, d.array(shape[axis:]), axis=axis, epsilon=1e-2)
        return d.add("Tanh", y) if d.chance(0.5) else y


ALL = [
    spelt_softmax, spelt_layer_norm, spelt_rms_norm, spelt_attention, branches, algebra, spelt_gelu, silu, view_chain, nested_slices,
    broadcast_then_function, twice_the_same, of_constants, computed_shape, slice_by_size,
    with_its_first, chosen_meet, positions, every_position, conv_block,
    squeeze_excite, shuffled_channels, overlapping_blocks, along_first_axis, fake_quantised, quantised_matmul, quantised_conv, quantised_sum, known_branch,
    same_on_every_trip, attention_in_f64, mixture, cached_attention, few_bits, unit_vectors, turned_sum, long_rows,
]
