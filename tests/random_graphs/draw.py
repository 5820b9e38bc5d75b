# SPDX-License-Identifier: Apache-2.0
"""Drawing a valid ONNX graph node by node, each node computed as it is added.

A drawing keeps every value twice, in the model's types and with floats in float64, so that it knows for each one how far
two right answers may be apart, and whether it is exact (small multiples of a power of two). Operators that jump (Floor,
ArgMax, comparisons) take exact values only, so no rounding can tip them over. A node that would give NaN, infinities,
large numbers or large tensors is not added: `Skip` is raised, and another one is drawn.
"""

import random
import warnings
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 21
MOST_ELEMENTS = 4096
LARGEST = 1e4
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)


class Skip(Exception):
    """This node cannot stand here; draw another one."""


@dataclass
class Value:
    name: str
    plain: np.ndarray
    wide: np.ndarray  # the same with floats in float64
    exact: bool
    constant: bool = False

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
        return self.plain.dtype.kind == "f"


@dataclass
class Drawing:
    seed: int
    nodes: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    initializers: list = field(default_factory=list)
    values: list = field(default_factory=list)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)

    # --- values that come from outside

    def shape(self, rank=None):
        """Some sizes, seldom a 0, with few elements."""
        rank = self.random.choice((0, 1, 2, 2, 3, 3, 4, 4)) if rank is None else rank
        while True:
            sizes = tuple(self.random.choice(SIZES) for _ in range(rank))
            if rank and self.random.random() < 0.02:
                sizes = (0, *sizes[1:])
            if np.prod(sizes) <= MOST_ELEMENTS // 4:
                return sizes

    def array(self, shape, dtype=np.float32, low=-4, high=4):
        """Multiples of 1/4 (of 1 for integers), so that sums and products stay exact for a while."""
        dtype = np.dtype(dtype)
        if dtype == bool:
            return self.numbers.integers(0, 2, shape).astype(bool)
        if dtype.kind == "u":
            low = max(low, 0)
        step = 4 if dtype.kind == "f" else 1
        return np.asarray(self.numbers.integers(low * step, high * step, shape, endpoint=True) / step).astype(dtype)

    def input(self, shape, dtype=np.float32):
        return self._outside(self.inputs, f"x{len(self.inputs)}", self.array(shape, dtype), False)

    def weight(self, array):
        return self._outside(self.initializers, f"w{len(self.initializers)}", np.asarray(array), True)

    def _outside(self, where, name, array, constant):
        value = Value(name, array, widened(array), is_exact(array), constant)
        where.append(value)
        if not constant:
            self.values.append(value)
        return value

    # --- nodes

    def add(self, op, *operands, outputs=1, exact=False, domain="", **attributes):
        """Adds a node; gives its result, or a list of them. `exact`: exact operands give exact results."""
        operands = [self.weight(o) if isinstance(o, np.ndarray) else o for o in operands]
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        node = helper.make_node(op, [o.name if o else "" for o in operands], names, domain=domain, **attributes)
        present = [o for o in operands if o]
        plain = evaluate(node, {o.name: o.plain for o in present})
        wide = evaluate(widened_node(node), {o.name: o.wide for o in present})
        keeps = exact and all(o.exact for o in present)
        results = [Value(n, p, np.asarray(w), keeps and is_exact(w)) for n, p, w in zip(names, plain, wide)]
        for value in results:
            check_sane(value)
        self.nodes.append(node)
        self.values.extend(results)
        return results if outputs > 1 else results[0]

    def pick(self, want=lambda value: True, recent=0.7):
        """A value that fits, most often one of the latest."""
        fitting = [v for v in self.values if want(v)]
        if not fitting:
            raise Skip
        return self.random.choice(fitting[-3:] if self.random.random() < recent else fitting)

    def float(self, rank=None, least=0):
        return self.pick(lambda v: v.dtype == np.float32 and (v.rank == rank if rank is not None else v.rank >= least))

    def axis(self, value):
        if value.rank == 0:
            raise Skip
        return self.random.randrange(-value.rank, value.rank)

    # --- the model

    def model(self, symbols):
        """The model; `symbols` gives names to sizes of inputs: {(input, axis): name}."""
        def info(value, open_sizes):
            sizes = [open_sizes.get(axis, size) for axis, size in enumerate(value.shape)]
            return helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), sizes)

        inputs = [info(v, {a: s for (i, a), s in symbols.items() if i == k}) for k, v in enumerate(self.inputs)]
        outputs = [helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), None)
                   for v in self.outputs()]  # fmt: skip
        weights = [numpy_helper.from_array(v.plain, v.name) for v in self.initializers]
        graph = helper.make_graph(self.nodes, f"seed{self.seed}", inputs, outputs, weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def outputs(self):
        """What no node reads, and one value that some do, so that fusion has to keep it."""
        read = {name for node in self.nodes for name in node.input}
        made = [v for v in self.values if v.name.startswith("v")]
        ends = [v for v in made if v.name not in read]
        inner = [v for v in made if v.name in read]
        return ends + inner[len(inner) // 2 :][:1]


def widened(array):
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def widened_node(node):
    """The node for operands in float64: types that it names are widened too."""
    wide = type(node)()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
    return wide


def evaluate(node, operands):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            results = ReferenceEvaluator(node).run(None, operands)
        except Exception as error:  # what the reference cannot run is not drawn
            raise Skip(str(error)) from error
    return [np.asarray(r) for r in results]


def is_exact(array):
    """Multiples of 2^-8 below 2^12: f32 holds such numbers, their sums and many products."""
    if array.dtype.kind in "biu":
        return True
    scaled = array.astype(np.float64) * 256
    return bool(np.all(np.abs(scaled) < 2**20) and np.all(scaled == np.round(scaled)))


def check_sane(value):
    plain, wide = value.plain, value.wide
    if plain.size > MOST_ELEMENTS or plain.shape != wide.shape or plain.dtype.kind not in "fiub":
        raise Skip
    if plain.dtype.kind == "f":
        if not np.all(np.isfinite(plain)) or np.any(np.abs(wide) > LARGEST):
            raise Skip
        if np.any(np.abs(plain - wide) > 1e-3 * (1 + np.abs(wide))):  # too ill-conditioned to judge
            raise Skip
    elif plain.dtype.kind in "iu" and plain.size and np.any(np.abs(plain.astype(np.float64)) > 1 << 20):
        raise Skip
    elif not np.array_equal(plain, wide):
        raise Skip
