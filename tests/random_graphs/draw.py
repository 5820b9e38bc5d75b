# SPDX-License-Identifier: Apache-2.0
"""Draws a valid ONNX graph at random, node by node; each node is computed as it is added.

A drawing keeps every value twice, in the model's types and with floats in float64. Their difference shows how far two
right answers may be apart. A value is exact if its elements are small multiples of one power of two. Operators with
discontinuities (Floor, ArgMax, comparisons) take exact values only, so rounding cannot change their results. A node
that would give NaN, large numbers, large tensors or (unless it is a reduction) infinities is not added: `Skip` is
raised, and another node is drawn.

Nodes are computed by onnx's reference evaluator; onnxruntime computes its own operators and nodes that the reference
evaluator cannot run. Bodies of If, Loop and Scan are drawings inside the drawing (control.py).
"""

import contextlib
import math
import random
import warnings
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSETS = (21, 21, 23, 28, 28)
PRECISIONS = ("f32", "f32", "bf16", "f16")
MOST_ELEMENTS = 4096
LONG_ELEMENTS = 1 << 18  # most elements of a value for operators on long rows
LARGEST = 1e4
LOW = -1e8  # a number as low as this hides a key
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
BF16 = np.dtype(ml_dtypes.bfloat16)
F8 = tuple(map(np.dtype, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2)))
INT4 = tuple(map(np.dtype, (ml_dtypes.int4, ml_dtypes.uint4)))
QUANTA = (*F8, *INT4)  # types that only DequantizeLinear reads here
# For each float type: the tolerance relative to the largest element, and the limit below which integers count as exact.
# The reference engines compute some f64 operators in f32.
FLOATS = {np.dtype(np.float64): (1e-6, 2**20), np.dtype(np.float32): (2e-5, 2**20), np.dtype(np.float16): (8e-3, 2**10),
          BF16: (6e-2, 2**7)}
# For each precision, the type in which a device may store values of f32.
STORED = {"f32": np.dtype(np.float32), "bf16": BF16, "f16": np.dtype(np.float16)}
PROTO_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


class Skip(Exception):
    """This node is not possible here; draw another one."""


@dataclass
class Value:
    name: str
    plain: np.ndarray
    wide: np.ndarray  # the value with floats in float64
    exact: bool
    constant: bool = False
    like: object = None  # the type to which the value was rounded; None: the type of `plain`
    stored: object = None  # for f32: the type in which a device may store the value
    chosen: bool = False  # for an input: its reader needs these rows, so that another size repeats or drops rows

    @property
    def shape(self):
        return self.plain.shape

    @property
    def rank(self):
        return self.plain.ndim

    @property
    def dtype(self):
        return self.plain.dtype

    @property
    def is_float(self):
        return self.plain.dtype in FLOATS

    @property
    def is_extreme(self):
        """True if an element is infinite or hides a key, or an integer of at least 2^31 in magnitude, such as the maximum of no
        elements."""
        wide = self.plain.astype(np.float64)
        ends = np.isinf(wide) | (wide <= LOW) if self.is_float else np.abs(wide) >= 2.0**31
        return bool(np.any(ends))

    def stays_exact(self, wide, dtype):
        """True unless this value is exact and `wide`, its value for other inputs, is not."""
        return not self.exact or is_exact(wide, dtype, self.stored)

    @property
    def unit(self):
        """Returns the tolerance of a right answer, relative to the largest element."""
        return FLOATS[self.like or self.dtype][0]


@dataclass
class Step:
    """A node, and a function that computes its results from {name: (plain, wide)}."""

    node: object
    compute: object
    results: list


@dataclass
class Drawing:
    seed: int
    nodes: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    initializers: list = field(default_factory=list)
    values: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    names: list = field(default_factory=lambda: [0])  # number of names in use
    hides: bool = False  # results may hold numbers that hide keys
    depth: int = 0  # number of bodies around this drawing
    precision: str = ""  # chosen by the seed if not given
    most: int = MOST_ELEMENTS  # most elements of a value

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)
        self.opset = self.random.choice(OPSETS)
        drawn = self.random.choice(PRECISIONS)
        self.precision = self.precision or drawn

    def inner(self):
        """Returns a drawing for a body. It can read the values around it, and its constants and inputs are added to the
        model."""
        body = Drawing(self.seed, inputs=self.inputs, initializers=self.initializers, values=list(self.values),
                       names=self.names, depth=self.depth + 1, precision=self.precision)
        body.random, body.numbers, body.opset = self.random, self.numbers, self.opset
        return body

    def mark(self):
        return len(self.nodes), len(self.values), len(self.inputs), len(self.initializers), len(self.steps)

    @contextlib.contextmanager
    def seeing(self, *values):
        """Opens a context in which nodes take operands only from these values and from results of nodes added in it."""
        around, self.values = self.values, list(values)
        try:
            yield
        finally:
            self.values = around + self.values[len(values) :]

    def back_to(self, mark):
        for items, count in zip((self.nodes, self.values, self.inputs, self.initializers, self.steps), mark):
            del items[count:]

    # --- inputs and constants

    def shape(self, rank=None):
        """Returns random sizes of a tensor with few elements; seldom the first size is 0."""
        rank = self.random.choice((0, 1, 2, 2, 3, 3, 4, 4)) if rank is None else rank
        while True:
            sizes = tuple(self.random.choice(SIZES) for _ in range(rank))
            if rank and self.random.random() < 0.02:
                sizes = (0, *sizes[1:])
            if np.prod(sizes) <= MOST_ELEMENTS // 4:
                return sizes

    def array(self, shape, dtype=np.float32, low=-4, high=4):
        """Returns random multiples of 1/4 (of 1 for integers), so that sums and products stay exact for a while."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return self.numbers.integers(0, 2, shape).astype(bool)
        if dtype.kind == "u":
            low = max(low, 0)
        step = 4 if dtype in FLOATS else 1
        return np.asarray(self.numbers.integers(low * step, high * step, shape, endpoint=True) / step).astype(dtype)

    def input(self, shape, dtype=np.float32):
        return self.given(self.array(shape, dtype))

    def given(self, array, **words):
        """Returns an input. An input of bf16, which numpy does not have, is given as f32 and converted."""
        if np.asarray(array).dtype == BF16:
            return self.add("Cast", self.given(array.astype(np.float32)), to=TensorProto.BFLOAT16, exact=True)
        return self._outside(self.inputs, f"x{len(self.inputs)}", np.asarray(array), False, **words)

    def weight(self, array):
        return self._outside(self.initializers, f"w{len(self.initializers)}", np.asarray(array), True)

    def _outside(self, where, name, array, constant, **words):
        value = self.valued(name, array, widened(array), True, constant=constant, **words)
        where.append(value)
        if not constant:
            self.values.append(value)
        return value

    def valued(self, name, plain, wide, keeps, **words):
        """Returns a new value. It is exact if `keeps` is set and its numbers are exact."""
        stored = STORED[self.precision]
        return Value(name, plain, wide, keeps and is_exact(wide, plain.dtype, stored), stored=stored, **words)

    # --- nodes

    def add(self, op, *operands, outputs=1, exact=False, domain="", **attributes):
        """Adds a node; returns its result, or a list of its results. `exact`: exact operands give exact results."""
        operands = [self.weight(o) if isinstance(o, np.ndarray) else o for o in operands]
        node = helper.make_node(op, [o.name if o else "" for o in operands], self.fresh(outputs), domain=domain, **attributes)
        results = self.place(node, [o for o in operands if o], exact)
        return results if outputs > 1 else results[0]

    def fresh(self, count):
        self.names[0] += 1
        return [f"v{self.names[0]}_{k}" for k in range(count)]

    def place(self, node, present, exact):
        """Computes a node whose operands exist already, and adds it; returns its results."""
        compute = judge_of(node, self.opset)
        plain, wide = compute({o.name: (o.plain, o.wide) for o in present})
        keeps = exact and all(o.exact for o in present)
        names = [name for name in node.output if name]
        results = [self.valued(n, p, w, keeps or p.dtype.kind in "biu") for n, p, w in zip(names, plain, wide)]
        return self.keep(node, compute, results)

    def keep(self, node, compute, results, may_be_extreme=False):
        for value in results:
            check_sane(value, may_be_extreme or self.hides or node.op_type.startswith("Reduce"), self.most)
        self.nodes.append(node)
        self.steps.append(Step(node, compute, results))
        self.values.extend(value for value in results if not value.is_extreme and value.dtype not in QUANTA)
        return results

    def pick(self, want=lambda value: True, recent=0.7):
        """Returns a value for which `want` is true, usually one of the latest three."""
        fitting = [v for v in self.values if want(v)]
        if not fitting:
            raise Skip
        return self.random.choice(fitting[-3:] if self.random.random() < recent else fitting)

    def real(self, rank=None, least=0, want=lambda value: True):
        """Returns a tensor of floats that is not empty."""
        return self.pick(lambda v: v.is_float and v.plain.size > 0
                         and (v.rank == rank if rank is not None else v.rank >= least) and want(v))

    def float(self, rank=None, least=0, want=lambda value: True):
        """Returns a tensor of f32."""
        return self.real(rank, least, lambda v: v.dtype == np.float32 and want(v))

    def axis(self, value):
        if value.rank == 0:
            raise Skip
        return self.random.randrange(-value.rank, value.rank)

    def chance(self, share):
        return self.random.random() < share

    # --- the model

    def finish(self):
        """Converts outputs of bf16 to f32."""
        for value in self.outputs():
            if value.dtype == BF16:
                node = helper.make_node("Cast", [value.name], self.fresh(1), to=TensorProto.FLOAT)
                compute = judge_of(node, self.opset)
                plain, wide = compute({value.name: (value.plain, value.wide)})
                self.keep(node, compute, [Value(node.output[0], plain[0], wide[0], value.exact, like=BF16, stored=BF16)], True)

    def model(self, symbols):
        """Returns the model; `symbols` gives names to sizes of inputs: {(input, axis): name}."""
        def info(value, open_sizes):
            sizes = [open_sizes.get(axis, size) for axis, size in enumerate(value.shape)]
            return helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), sizes)

        inputs = [info(v, {a: s for (i, a), s in symbols.items() if i == k}) for k, v in enumerate(self.inputs)]
        outputs = [helper.make_empty_tensor_value_info(v.name) if self.seed % 4 == 0
                   else helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), None) for v in self.outputs()]
        weights = [numpy_helper.from_array(v.plain, v.name) for v in self.initializers]
        graph = helper.make_graph(self.nodes, f"seed{self.seed}", inputs, outputs, weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1),
                  helper.make_opsetid("ai.onnx.ml", 5)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def outputs(self):
        """Returns the values that no node reads, and one that some node reads, so that fusion must also store it."""
        read = {name for node in self.nodes for name in names_read(node)}
        made = [v for step in self.steps for v in step.results]
        ends = [v for v in made if v.name not in read]
        inner = [v for v in made if v.name in read and v.dtype not in (BF16, *QUANTA)]
        return ends + inner[len(inner) // 2 :][:1]

    def again(self, given):
        """Recomputes all values for other inputs, by name; raises Skip if the graph is invalid for them."""
        values = {v.name: v for v in self.initializers}
        values |= {v.name: self.valued(v.name, given[v.name], widened(given[v.name]), True) for v in self.inputs}
        for step in self.steps:
            known = {name: (values[name].plain, values[name].wide) for name in names_read(step.node) if name in values}
            plain, wide = step.compute(known)
            for old, p, w in zip(step.results, plain, wide):
                value = Value(old.name, p, w, old.exact, like=old.like, stored=old.stored)
                check_sane(value, may_be_extreme=True, most=LONG_ELEMENTS)
                if not old.stays_exact(w, p.dtype):
                    raise Skip
                values[old.name] = value
        return values


def names_read(node):
    """Yields names that a node reads, its bodies included."""
    for name in node.input:
        yield name
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from names_read(inner)
        yield from (output.name for output in attribute.g.output)


def widened(array):
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype in FLOATS else array


def widened_node(node):
    """Returns the node for operands in float64: types in its attributes are widened too."""
    wide = type(node)()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        if attribute.name in ("to", "dtype", "output_dtype", "stash_type") and attribute.i in PROTO_FLOATS:
            attribute.i = TensorProto.DOUBLE
    return wide


# --- evaluation of nodes


def judge_of(node, opset):
    """Returns the evaluator of a node: a function from {name: (plain, wide)} to the lists of plain and wide results."""
    if node.domain == "com.microsoft" or is_wrong_in_reference(node):
        return lambda known: by_onnxruntime(node, opset, checked(node, known))
    wide_node = widened_node(node)

    def compute(known):
        checked(node, known)
        try:
            plain = by_reference(node, {name: pair[0] for name, pair in known.items()}, opset)
        except Exception as error:
            if node.op_type not in ORT_JUDGES:
                raise Skip(str(error)) from error
            return by_onnxruntime(node, opset, known)
        try:
            wide = by_reference(wide_node, {name: pair[1] for name, pair in known.items()}, opset)
        except Exception:  # its ONNX function has constants of the narrow type, which do not mix with float64
            wide = noisy(by_reference(node, narrowed(known), opset))
        return plain, [widened(w) for w in wide]

    return compute


def checked(node, known):
    """Returns the operands, or raises Skip where the reference engines disagree:
    - windows of pools that are wider than the padded axis;
    - rows divided by a norm or deviation that is only a rounding error;
    - Tan near its poles, and fractions in OneHot;
    - half-way values that DynamicQuantizeLinear rounds, and its scale for zeros;
    - points of GridSample half way between two pixels;
    - labels of a loss that are no class;
    - the part of a cache after the last key."""
    first = known.get(node.input[0], (None, None))[1] if node.input else None
    if is_window_too_wide(node, first):
        raise Skip
    if node.op_type.startswith("DynamicQuantize") and (not np.any(first) or is_between_steps(first)):
        raise Skip
    if node.op_type == "GroupQueryAttention" and has_room(node, known):
        raise Skip
    if node.op_type.endswith("Loss") and not has_classes(node, first, known[node.input[1]][1]):
        raise Skip
    if node.op_type == "GridSample" and is_between_pixels(node, first, known[node.input[1]][1]):
        raise Skip
    if node.op_type == "OneHot" and np.any(first != np.floor(first)):
        raise Skip
    if node.op_type == "LpNormalization":
        axis = next((a.i for a in node.attribute if a.name == "axis"), -1)
        if np.any(np.sum(np.abs(first), axis) < 1e-2):
            raise Skip
    if node.op_type == "Tan" and np.any(np.abs(np.cos(first)) < 0.03):
        raise Skip
    if any(is_flat(rows, least) for rows, least in normalised_rows(node, known)):
        raise Skip
    return known


def is_flat(rows, least):
    """True if a row's deviation is so small compared with its elements that rounding the inputs changes the answer."""
    return rows.size and rows.shape[-1] > 1 and np.any(np.std(rows, -1) < least * np.max(np.abs(rows), -1))


def normalised_rows(node, known):
    """Yields the rows that the node centres, as the last axis of an array, and the smallest allowed ratio of a row's
    deviation to its largest element. ONNX defines some variances as a difference of squares, which loses more bits."""
    words = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    x = known[node.input[0]][1] if node.input and node.input[0] in known else None
    if node.op_type == "MeanVarianceNormalization":
        axes = [axis % x.ndim for axis in words.get("axes", (0, 2, 3))]
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        yield x.transpose(kept + axes).reshape([x.shape[axis] for axis in kept] + [math.prod(x.shape[axis] for axis in axes)]), 0.1
    if node.op_type == "InstanceNormalization":
        yield x.reshape(*x.shape[:2], math.prod(x.shape[2:])), 0.01
    if node.op_type == "GroupNormalization":
        yield x.reshape(x.shape[0], words["num_groups"], math.prod(x.shape[1:]) // words["num_groups"]), 0.1
    if node.op_type == "LayerNormalization":
        axis = words.get("axis", -1) % x.ndim
        yield x.reshape(*x.shape[:axis], math.prod(x.shape[axis:])), 0.01
    if node.op_type == "SkipLayerNormalization":
        yield sum(known[name][1] for name in [*node.input[:2], *node.input[4:5]] if name), 0.01


def is_window_too_wide(node, x):
    """True if a pool's window is wider than its padded axis: onnxruntime rounds the negative number of steps towards
    0, the standard downwards."""
    words = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if not node.op_type.endswith("Pool") or "kernel_shape" not in words:
        return False
    window = np.array(words["kernel_shape"])
    sizes = np.array(x.shape[1:-1] if words.get("channels_last") else x.shape[2:])
    pads = np.reshape(words.get("pads", [0] * 2 * len(window)), (2, -1)).sum(0)
    return bool(np.any((window - 1) * np.array(words.get("dilations", 1)) + 1 > sizes + pads))


def is_between_steps(x):
    """True if rounding to the 256 steps from the least to the greatest may choose either of two steps, because an
    element of x or the zero point is half way between them. False if the step is a power of two, which divides
    exactly."""
    low, high = min(np.min(x), 0), max(np.max(x), 0)
    scale = max(high - low, 1e-9) / 255
    steps = np.append(x, -low) / scale
    return np.frexp(scale)[0] != 0.5 and np.any(np.abs(steps - np.floor(steps) - 0.5) < 1e-3)


def has_room(node, known):
    """True if a cache has room for more keys than it held before the node."""
    names = (*node.input, *[""] * 7)
    if names[3] not in known or names[6] not in known:
        return False
    before = int(known[names[6]][1]) - known[names[0]][1].shape[1]
    return known[names[3]][1].shape[2] > max(before, 0)


def has_classes(node, scores, labels):
    ignored = next((a.i for a in node.attribute if a.name == "ignore_index"), 0)
    return bool(np.all((labels == ignored) | (labels >= 0) & (labels < scores.shape[1])))


def is_between_pixels(node, x, grid):
    """True if rounding decides which pixel is nearest to a point."""
    words = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    sizes = np.array(x.shape[:1:-1])
    places = (grid + 1) / 2 * (sizes - 1) if words.get("align_corners") else ((grid + 1) * sizes - 1) / 2
    return words.get("mode") == b"nearest" and bool(np.any(np.abs(places - np.floor(places) - 0.5) < 1e-4))


def is_wrong_in_reference(node):
    """True if onnx's reference evaluator lacks the operator or computes some of its cases wrongly:
    - SimplifiedLayerNormalization;
    - LRN with more channels than pictures;
    - sizes of pooling with pads, with ceil_mode or in one dimension;
    - half-way values that quantised products round;
    - lengths of a recurrent network's rows, and its activation functions;
    - norms of order 1."""
    is_cell = node.op_type in ("LSTM", "GRU", "RNN") and (len(node.input) > 4 or any(a.name == "activations" for a in node.attribute))
    is_plain_sum = node.op_type == "LpNormalization" and any(a.name == "p" and a.i == 1 for a in node.attribute)
    return is_cell or is_plain_sum or node.op_type in ("LRN", "QLinearConv", "QLinearMatMul", "MaxPool", "AveragePool", "GlobalMaxPool",
                                           "SimplifiedLayerNormalization")


# Operators that the reference implements only partly.
ORT_JUDGES = {"LSTM", "GRU", "RNN", "MaxPool", "AveragePool", "GlobalLpPool", "MaxRoiPool", "RoiAlign", "GridSample"}


def by_reference(node, operands, opset):
    inputs = [info_of(name, array) for name, array in operands.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    evaluator = ReferenceEvaluator(graph, opsets={"": opset, "ai.onnx.ml": 5})
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        results = evaluator.run(None, operands)
    if any(not isinstance(r, (np.ndarray, np.generic)) for r in results):
        raise Skip
    return [np.asarray(r) for r in results]


def session_of(model):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def by_onnxruntime(node, opset, known):
    """Runs the node alone in onnxruntime, on the values and on the wide values rounded to the model's types. Returns
    both results, the second one changed by `noisy`; their difference bounds the error of a right answer."""
    is_empty = any(pair[0].size == 0 for pair in known.values())
    if is_empty and (node.domain or node.op_type in ("LSTM", "GRU", "RNN")):
        raise Skip  # onnxruntime divides by this size of 0, or crashes
    inputs = [info_of(name, pair[0]) for name, pair in known.items()]
    is_typed = node.op_type.endswith("MultiHeadAttention")  # onnxruntime does not infer the type of the scores
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) if is_typed else helper.make_empty_tensor_value_info(name)
               for name in node.output if name]
    opsets = [helper.make_opsetid("", min(opset, 21)), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "node", inputs, outputs), opset_imports=opsets, ir_version=10)
    try:
        session = session_of(model.SerializeToString())
        plain = session.run(None, {name: pair[0] for name, pair in known.items()})
        near = session.run(None, narrowed(known))
    except Exception as error:  # do not draw nodes that no reference engine runs
        raise Skip(str(error)) from error
    return plain, noisy(near)


def info_of(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def narrowed(known):
    """Returns the wide operands rounded to the model's types."""
    return {name: pair[1].astype(pair[0].dtype) for name, pair in known.items()}


def noisy(arrays):
    """Returns arrays in float64, each increased by 2^-22 times its largest element (two to four units in the last
    place of f32)."""
    return [widened(a) + 2.0**-22 * np.max(np.abs(widened(a)), initial=0) if a.dtype in FLOATS else a for a in arrays]


# --- properties of values


def is_exact(array, dtype, stored):
    """True if all elements are multiples of a power of two that their type represents exactly, and so are their sums
    and many of their products. f32 is treated as the type `stored`."""
    if dtype.kind in "biu" or dtype in QUANTA:
        return True
    if dtype not in FLOATS:
        return False
    if dtype == np.float32:
        dtype = stored
    step = {2**20: 256, 2**10: 8, 2**7: 4}[FLOATS[dtype][1]]
    scaled = array.astype(np.float64) * step
    return bool(np.all(np.abs(scaled) < FLOATS[dtype][1]) and np.all(scaled == np.round(scaled)))


def check_sane(value, may_be_extreme=False, most=MOST_ELEMENTS):
    plain, wide = value.plain, value.wide
    if plain.size > most or plain.shape != wide.shape or not (plain.dtype.kind in "iub" or plain.dtype in FLOATS or plain.dtype in QUANTA):
        raise Skip
    if plain.dtype in FLOATS:
        plain = plain.astype(np.float64)
        hidden = may_be_extreme and np.isclose(plain, wide, rtol=1e-6) & (plain <= LOW)
        known = np.isfinite(plain) & ~np.asarray(hidden)
        if not np.all(known | hidden | (plain == wide if may_be_extreme else False)) or np.any(np.abs(wide[known]) > LARGEST):
            raise Skip
        if np.any(np.abs(plain[known] - wide[known]) > 50 * value.unit * (1 + np.abs(wide[known]))):  # too ill-conditioned to compare
            raise Skip
    elif not np.array_equal(plain, wide):
        raise Skip
    elif plain.dtype.kind in "iu" and plain.dtype.itemsize > 2 and not (may_be_extreme and value.is_extreme):
        if np.any(np.abs(plain.astype(np.float64)) > 1 << 20):
            raise Skip
