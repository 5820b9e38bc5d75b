# SPDX-License-Identifier: Apache-2.0
"""PyTorch models on Weft. Importing `weft.torch` needs torch; importing `weft` does not.

    import torch, weft.torch
    fast = torch.compile(model.eval(), backend="weft")      # inference; sizes may change from call to call
    run = weft.torch.from_torch(torch.export.export(model, (x,)))
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import logging
import math
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.utils import _pytree as pytree

import weft
from weft import _weft

__all__ = ["Placement", "backend", "from_torch", "placements", "save"]

log = logging.getLogger("weft.torch")


class Placement(NamedTuple):
    """How many of a graph's nodes run on Weft; the other nodes run in eager mode."""

    on_weft: int
    total: int
    why: str = ""  #: why the first node in eager is not on Weft

    def __str__(self) -> str:
        return f"{self.on_weft}/{self.total} nodes on weft" + (f"; {self.why}" if self.why else "")


#: Placements of the graphs that torch.compile has given to `backend` in this process.
placements: list[Placement] = []

_TYPES = {
    "bool": torch.bool, "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "i8": torch.int8,
    "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
    "f64": torch.float64, "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "f8e4m3fnuz": torch.float8_e4m3fnuz,
    "f8e5m2fnuz": torch.float8_e5m2fnuz,
}
_OPTIONS = ("device", "precision", "threads", "freeze", "fullgraph")


def from_torch(program: torch.export.ExportedProgram, **options: Any) -> weft.Model:
    """Compiles a program of torch.export; `options` as for weft.compile."""
    file = io.BytesIO()
    save(program, file)
    return weft.compile(file.getvalue(), **options)


def save(program: torch.export.ExportedProgram, file: str | os.PathLike[str] | io.IOBase) -> None:
    """Writes an archive (.pt2) that Weft reads. Most programs are written as torch.export.save writes them. Programs with
    flex attention, autocast or weights of tensor subclasses are first decomposed by `run_decompositions({})`: flex attention
    becomes its formula, and torch would pickle subclasses, such as torchao's."""
    names = {_name(node.target) for node in program.graph.nodes}
    plain = all(type(weight) in (torch.Tensor, torch.nn.Parameter) for weight in program.state_dict.values())
    if not plain or names & {"flex_attention", "wrap_with_autocast"}:
        program = program.run_decompositions({})
        _spell_flex(program)
    torch.export.save(program, file)


def _spell_flex(program: torch.export.ExportedProgram) -> None:
    """Replaces each node of flex attention by its formula, traced for the sizes of the node's inputs."""
    module, graph = program.graph_module, program.graph
    for node in filter(_is_flex, list(graph.nodes)):
        leaves, form = pytree.tree_flatten((node.args, node.kwargs))
        inputs = [leaf for leaf in leaves if isinstance(leaf, fx.Node) and leaf.op != "get_attr"]

        def formula(*values: Any, leaves: list[Any] = leaves, form: Any = form, inputs: list[fx.Node] = inputs) -> Any:
            given = dict(zip(inputs, values, strict=True))
            given.update((leaf, getattr(module, leaf.target)) for leaf in leaves if isinstance(leaf, fx.Node) and leaf not in given)
            args, kwargs = pytree.tree_unflatten([given[leaf] if isinstance(leaf, fx.Node) else leaf for leaf in leaves], form)
            return _flex_formula(*args, **kwargs)

        traced = _traced(formula, [node.meta["val"] for node in inputs])
        _spell_scalars(traced)
        ports = traced.graph.find_nodes(op="placeholder")
        with graph.inserting_before(node):
            results = graph.graph_copy(traced.graph, dict(zip(ports, inputs, strict=True)))
        for item in list(node.users):  # each an operator.getitem
            result = results[item.args[1]]  # type: ignore[index]
            item.replace_all_uses_with(result)
            program.graph_signature.replace_all_uses(item.name, result.name)
            graph.erase_node(item)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    module.delete_all_unused_submodules()
    module.recompile()
    mode = torch._guards.detect_fake_mode([node.meta["val"] for node in graph.find_nodes(op="placeholder")])
    if mode is not None and mode.shape_env is not None:
        bounds = program.range_constraints
        for size in bounds:  # if the formula makes two sizes equal, the symbol that stays gets the intersection of their bounds
            same = mode.shape_env.simplify(size)
            if same in bounds:
                bounds[same] &= bounds[size]


def _traced(function: Callable[..., Any], inputs: Sequence[Any], table: dict[Any, Any] | None = None) -> fx.GraphModule:
    """Traces a function of fake tensors. Open sizes stay open, also in composite operators and in tensors made only from
    sizes."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = torch._guards.detect_fake_mode(inputs)
    with mode or contextlib.nullcontext(), enable_python_dispatcher():
        return make_fx(function, decomposition_table=table)(*inputs)


def _spell_scalars(module: fx.GraphModule) -> None:
    """Replaces get_attr nodes, which read scalar tensors of the module, by constants in the graph."""
    for node in list(module.graph.find_nodes(op="get_attr")):
        value = getattr(module, node.target)
        with module.graph.inserting_before(node):
            scalar = module.graph.call_function(torch.ops.aten.scalar_tensor.default, (value.item(),), {"dtype": value.dtype})
        scalar.meta = dict(node.meta)
        node.replace_all_uses_with(scalar)
        module.graph.erase_node(node)


def backend(gm: fx.GraphModule, example_inputs: Sequence[Any], options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Compiles a graph for torch.compile(backend="weft") and returns the function that runs it.

    options: {"device": "amd:0", "precision": "bf16", "threads": 4}, as for weft.compile. The default device is that of the tensors.
    "freeze": False reads parameters at each call instead of packing them once. With "fullgraph": True, compiling raises an error if
    a part of the graph would run in eager mode. Raises UsageError for an unknown option."""
    from torch._dynamo.backends.common import aot_autograd

    given = dict(options or {})
    unknown = sorted(set(given) - set(_OPTIONS))
    if unknown:
        raise weft.UsageError(f"error[E502]: backend weft has no option {unknown[0]!r}", "E502", hint=f"it has {', '.join(_OPTIONS)}")

    whole: list[Callable[..., Any]] = []

    def inference(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        made = _Graph(graph, inputs, given)
        run = made.compiled()
        if made.is_whole and len(inputs) == len(example_inputs) and _changes_nothing():
            whole.append(run)
        return _boxed(run)

    with _no_garbage_collection(), _whole_resizes():
        wrapped = aot_autograd(fw_compiler=_eager_training, inference_compiler=inference, decompositions={})(gm, example_inputs)
    return whole[0] if len(whole) == 1 else wrapped  # type: ignore[no-any-return]


@functools.cache
def _resizes() -> list[Any]:
    """Returns the resize operators that torch would trace as gathers and arithmetic, because it has Python kernels for
    them."""
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if "upsample_" in name and not name.endswith("backward")]
    return [op for packet in packets for name in packet.overloads() if (op := getattr(packet, name)).py_kernels]


def _with_sizes(op: Any) -> Callable[..., Any]:
    """Returns a kernel for the overload `vec` of a resize that calls the plain overload; torch's own takes no open sizes."""
    def run(x: torch.Tensor, sizes: Sequence[Any] | None, *rest: Any) -> Any:
        *flags, factors = rest
        if sizes is None:
            sizes = [torch.sym_int(size * factor) for size, factor in zip(x.shape[2:], factors)]
        return op.overloadpacket.default(x, sizes, *flags, *(factors or [None] * len(sizes)))

    return run


@contextlib.contextmanager
def _whole_resizes() -> Iterator[None]:
    """Keeps resize operators whole while torch traces a graph."""
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    keys = (torch._C.DispatchKey.Autograd, composite)
    taken = [(op, {key: op.py_kernels.pop(key) for key in keys if key in op.py_kernels}) for op in _resizes()]
    try:
        for op, _ in taken:
            op._dispatch_cache.clear()
            if op._overloadname == "vec":
                op.py_kernels[composite] = _with_sizes(op)
        yield
    finally:
        for op, kernels in taken:
            op.py_kernels.pop(composite, None)
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Turns the garbage collector off. For resnet50, collections would take a tenth of the time for tracing and compiling."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _changes_nothing() -> bool:
    """True if calls of the graph that is being compiled can skip torch's wrappers around it. The graph must not write to
    inputs, return views, change random state, have ordered side effects or switch gradients on or off. All its inputs
    and outputs must be plain tensors, with outputs of fixed sizes."""
    context = torch._guards.TracingContext.try_get()
    known = None if context is None else context.fw_metadata
    if known is None or getattr(known, "grad_enabled_mutation", True) is not None:
        return False
    counts = ("num_mutated_inp_runtime_indices", "num_outputs_aliased", "num_intermediate_bases", "dynamic_outputs", "tokens",
              "num_graphsafe_rng_states")
    if any(getattr(known, name, True) for name in counts):
        return False
    kinds = (*known.subclass_inp_meta, *known.subclass_fw_graph_out_meta)
    return all(type(kind).__name__ == "PlainTensorMeta" for kind in kinds)


def _boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    from functorch.compile import make_boxed_func

    return make_boxed_func(run)


def _eager_training(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    log.warning("weft runs inference only: a graph with gradients runs in eager (use torch.no_grad())")
    return _boxed(graph.forward)


# ---- A graph as the text that weft reads ----


def _signature(graph: fx.Graph) -> Any:
    from torch.export import graph_signature as sig

    def argument(value: Any) -> Any:
        if not isinstance(value, fx.Node):
            return sig.ConstantArgument(name="", value=value)
        kind = sig.TensorArgument if isinstance(value.meta["val"], torch.Tensor) else sig.SymIntArgument
        return kind(name=value.name)

    inputs = [sig.InputSpec(sig.InputKind.USER_INPUT, argument(node), None) for node in graph.find_nodes(op="placeholder")]
    outputs = [sig.OutputSpec(sig.OutputKind.USER_OUTPUT, argument(value), None) for value in graph.output_node().args[0]]
    return sig.ExportGraphSignature(inputs, outputs)


def _plain(value: Any) -> Any:
    """Returns a dataclass of torch's schema as the JSON that torch writes: a union is an object with one entry."""
    from torch._export.serde import serialize

    return json.loads(json.dumps(serialize._dataclass_to_dict(value), cls=serialize.EnumEncoder))


def _ranges(graph: fx.Graph) -> dict[str, Any]:
    """Returns the bounds of the sizes that torch left open."""
    found: dict[str, Any] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        mode = getattr(value, "fake_mode", None)
        if mode is None or mode.shape_env is None:
            continue
        for symbol, bounds in mode.shape_env.var_to_range.items():
            low, high = (int(b) if b.is_Integer and abs(int(b)) < 2**62 else None for b in (bounds.lower, bounds.upper))
            found[str(symbol)] = {"min_val": low, "max_val": high}
        break
    return found


def _added(graph: fx.Graph, function: Callable[..., Any], *parts: Any) -> fx.Node:
    """Adds a node that computes a size from other sizes."""
    node = graph.call_function(function, parts)
    node.meta["val"] = function(*(part.meta["val"] if isinstance(part, fx.Node) else part for part in parts))
    return node


def _split_sums(graph: fx.Graph) -> None:
    """Replaces sums of several sizes, which torch's serialiser does not know, by sums of two."""
    for node in list(graph.nodes):
        if node.target is not torch.sym_sum:
            continue
        with graph.inserting_before(node):
            node.replace_all_uses_with(functools.reduce(functools.partial(_added, graph, operator.add), node.args[0]))
        graph.erase_node(node)


def _divide_wholly(graph: fx.Graph) -> None:
    """Replaces ceil(a / b) and floor(a / b) of sizes, which torch's serialiser does not know, by integer divisions."""
    for node in list(graph.nodes):
        quotient = node.args[0] if node.target in (math.ceil, math.floor) else None
        if not isinstance(quotient, fx.Node) or quotient.target is not operator.truediv:
            continue
        over, by = quotient.args
        if not all(isinstance(part.meta["val"] if isinstance(part, fx.Node) else part, (int, torch.SymInt)) for part in (over, by)):
            continue
        with graph.inserting_before(node):
            if node.target is math.ceil:  # ceil(a / b) = -(-a // b)
                over = _added(graph, operator.neg, over)
            whole = _added(graph, operator.floordiv, over, by)
            node.replace_all_uses_with(_added(graph, operator.neg, whole) if node.target is math.ceil else whole)
        graph.erase_node(node)
        if not quotient.users:
            graph.erase_node(quotient)


def _text(gm: fx.GraphModule) -> str:
    """Returns the graph in the JSON form of a .pt2 archive, by torch's serialiser. Parameters are inputs."""
    from torch._export.serde import schema, serialize

    copy = fx.Graph()
    copy.output(copy.graph_copy(gm.graph, {}))
    plain = fx.GraphModule(gm, copy)
    known = serialize._TORCH_TO_SERIALIZE_DTYPE

    def written(value: Any) -> Any:
        """Replaces random seeds of CUDA attention by int64 tensors: torch 2.11 cannot serialise their type. Inference reads no seeds."""
        is_seed = isinstance(value, torch.Tensor) and value.dtype not in known
        return torch.empty(value.shape, dtype=torch.int64, device="meta") if is_seed else value

    for inner in (m for m in plain.modules() if isinstance(m, fx.GraphModule) and m is not plain):
        for node in inner.graph.nodes:
            node.meta = {key: node.meta[key] for key in ("val", "stack_trace") if node.meta.get(key) is not None}
    for node, original in zip(plain.graph.nodes, gm.graph.nodes, strict=True):
        node.meta = {key: original.meta[key] for key in ("val", "stack_trace") if original.meta.get(key) is not None}
        if isinstance(node.meta.get("val"), tuple):
            node.meta["val"] = tuple(map(written, node.meta["val"]))
        node.name = original.name
    if not isinstance(plain.graph.output_node().args[0], (tuple, list)):
        plain.graph.output_node().args = ((plain.graph.output_node().args[0],),)
    _split_sums(plain.graph)
    _divide_wholly(plain.graph)
    plain.graph.lint()
    module = serialize.GraphModuleSerializer(_signature(plain.graph), []).serialize(plain)
    major, minor = schema.SCHEMA_VERSION
    program = {"graph_module": _plain(module), "schema_version": {"major": major, "minor": minor}, "guards_code": []}
    return json.dumps({**program, "range_constraints": _ranges(plain.graph)})


# ---- Graphs on weft ----


def _values(gm: fx.GraphModule) -> list[Any]:
    """Returns the values that torch recorded for the results of a graph: their sizes and types."""
    outputs = gm.graph.output_node().args[0]
    nodes = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    return [node.meta.get("val") if isinstance(node, fx.Node) else node for node in nodes]


def _memory_order(value: Any) -> tuple[list[int], list[int]] | None:
    """Returns the order of a result's axes in memory, and the inverse permutation. Returns None if the result is row-major or a
    stride is 0 or unknown. Later operators in eager mode may take views that are valid for this order only."""
    if not isinstance(value, torch.Tensor):
        return None
    known = [step if isinstance(step, int) else step.node.hint for step in value.stride()]
    sizes = [size if isinstance(size, int) else size.node.hint for size in value.shape]
    moves = [axis for axis in range(value.ndim) if sizes[axis] != 1]
    if any(known[axis] in (0, None) for axis in moves):
        return None
    order = sorted(moves, key=lambda axis: -known[axis])
    if order == moves:
        return None
    order += [axis for axis in range(value.ndim) if axis not in moves]
    return order, sorted(range(value.ndim), key=order.__getitem__)


def _real(value: torch.Tensor) -> torch.Tensor:
    """Converts complex numbers to pairs of reals, Weft's form of them. Carries out a negation or conjugation that torch has
    postponed."""
    if value.dtype.is_complex:
        return torch.view_as_real(value.resolve_conj().resolve_neg())
    return value.resolve_neg() if value.is_neg() else value


class _Part(torch.nn.Module):
    """A graph on weft, compiled at its first call, because the values of parameters are not known before. Parameters whose
    addresses torch considers fixed become constants. When such a parameter changes, the graph is compiled again."""

    def __init__(self, text: str, still: Sequence[int], options: dict[str, Any], eager: Callable[..., Any] | None,
                 place: torch.device | None, graph_outputs: Sequence[Any]) -> None:
        super().__init__()
        self.text, self.options, self.eager = text, options, eager
        graph = json.loads(text)["graph_module"]["graph"]
        self.names = [next(iter(entry.values())).get("name") or entry["as_sym_int"]["as_name"] for entry in graph["inputs"]]
        self.results = [next(iter(entry)) for entry in graph["outputs"]]
        self.total = len(graph["nodes"])
        self.still = tuple(i for i in still if "as_tensor" in graph["inputs"][i])
        orders = [_memory_order(value) for value in graph_outputs]
        self.orders = [(i, *order) for i, order in enumerate(orders) if order]
        self.complex = [i for i, v in enumerate(graph_outputs) if isinstance(v, torch.Tensor) and v.is_complex()]
        here = place or torch.device("cpu")
        tensors = [(i, v.device) for i, v in enumerate(graph_outputs) if isinstance(v, torch.Tensor)]
        self.elsewhere = [(i, device) for i, device in tensors if device != here]
        finishes = self.orders or self.complex or self.elsewhere or any(kind != "as_tensor" for kind in self.results)
        self.is_plain = not finishes
        self.place = place
        self.call: Callable[..., Any] | None = None

    def build(self, inputs: Sequence[Any]) -> None:
        held = [(i, inputs[i]) for i in self.still]
        # Contiguous parameters on the CPU are not copied, so these weights are not held twice.
        constants = {self.names[i]: weft._weft.tensor(_real(inputs[i]).detach().cpu().contiguous()) for i in self.still}
        model = weft.compile(self.text.encode(), constants=constants, **self.options)
        order = [self.names.index(port.name) for port in model.inputs]
        here = self.place or torch.device("cpu")
        self.odd = [i for i in order if isinstance(v := inputs[i], torch.Tensor) and (_real(v) is not v or v.device != here)]
        makers = [torch.empty(0, dtype=_TYPES[port.dtype], device=self.place).new_empty for port in model.outputs]
        table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        self.call = _weft.TorchCall(model._native, torch.Tensor, table, order, makers, held).run

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        is_plain = self.call and not self.odd
        found = self.call(inputs, self.stream()) if is_plain else None
        if found is None:
            try:
                found = self.slow_call(inputs)
            except weft.UnsupportedError as error:
                if self.eager is None:
                    raise
                placements.append(Placement(0, self.total, str(error)))
                log.warning("a graph runs in eager: %s", error)
                with torch.no_grad():
                    return self.eager(*inputs)  # type: ignore[no-any-return]
        return found if self.is_plain else self.finished(found)

    def slow_call(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Runs the first call, a call after a parameter has changed, or a call whose inputs must be converted."""
        found = self.prepared_call(inputs) if self.call else None
        if found is None:
            self.build(inputs)
            found = self.prepared_call(inputs)
        return found  # type: ignore[return-value]

    def prepared_call(self, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        given = (_real(v).to(self.place) if i in self.odd else v for i, v in enumerate(inputs))
        return self.call(tuple(given), self.stream())  # type: ignore[misc,no-any-return]

    def stream(self) -> int | None:
        """Returns the address of torch's current stream on the GPU; None on a CPU."""
        return None if self.place is None else torch._C._cuda_getCurrentRawStream(self.place.index or 0)  # type: ignore[no-any-return]

    def finished(self, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Converts Weft's results to the Python numbers, complex tensors, memory layouts and devices that torch recorded."""
        rest = iter(outputs)
        found: list[Any] = []
        for kind in self.results:
            value = None if kind == "as_none" else next(rest)
            found.append(value if value is None or kind == "as_tensor" else value.item())
        for i in self.complex:
            found[i] = torch.view_as_complex(found[i])
        for i, order, back in self.orders:
            found[i] = found[i].permute(order).contiguous().permute(back)
        for i, device in self.elsewhere:
            found[i] = found[i].to(device)
        return tuple(found)


def _writes(graph: fx.Graph) -> bool:
    targets = (node.target for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload))
    return any(target._schema.is_mutable for target in targets)


def _name(target: Any) -> str:
    """Returns the name of a node's operator; "" for a target without one."""
    return str(getattr(target, "__name__", ""))


def _is_flex(node: fx.Node) -> bool:
    return _name(node.target) == "flex_attention"


class _Spelt(fx.Interpreter):
    """Expands flex attention into its formula."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if _name(target) == "flex_attention":
            return _flex_formula(*args, **kwargs)
        return super().call_function(target, args, kwargs)


#: Operators that compute each element of a tensor by itself, although they lack torch's tag "pointwise".
_BROADCAST = {
    f"aten.{name}" for name in (
        "_to_copy.default", "clone.default", "detach.default", "full.default", "lift_fresh_copy.default", "new_ones.default",
        "ones.default", "scalar_tensor.default", "to.device", "to.dtype", "zeros.default")
}


def _broadcasts(body: fx.GraphModule) -> bool:
    """True if a function of scalars also works on tensors that broadcast, with one call for all elements."""

    def is_simple(node: fx.Node) -> bool:
        if not isinstance(node.target, torch._ops.OpOverload):
            return False
        if node.target is torch.ops.aten.index.Tensor:  # with an index for each axis, it reads single elements
            table, indices = node.args
            return len(indices) == table.meta["val"].ndim and all(index is not None for index in indices)  # type: ignore
        made = node.meta.get("val")
        return (torch.Tag.pointwise in node.target.tags or str(node.target) in _BROADCAST) and getattr(made, "ndim", 1) == 0

    return all(is_simple(node) for node in body.graph.nodes if node.op == "call_function")


def _flex_formula(query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: float, options: Any,
                  of_score: Any = (), of_mask: Any = ()) -> tuple[Any, Any, Any]:
    """Computes flex attention: scores, the model's functions on scores, softmax. torch's own formula applies the functions by vmap, which
    turns sizes into constants. Functions that broadcast are applied to whole tensors instead, so that sizes stay open.

    Returns the attention and, for each row, the logarithm of the sum of exponentials and the greatest score, both divided by log(2)."""
    from torch._higher_order_ops.flex_attention import math_attention

    mask_mod = block_mask[-1]
    if not (_broadcasts(score_mod) and _broadcasts(mask_mod)):
        return math_attention(query, key, value, score_mod, block_mask, scale, options, of_score, of_mask)
    batch, heads, rows, _ = query.shape
    columns, shared = key.shape[2], heads // key.shape[1]

    def for_heads(x: Any) -> Any:
        x = x[:, :, None].expand(batch, x.shape[1], shared, *x.shape[2:])
        return x.reshape(batch, heads, *x.shape[3:])

    at = [torch.arange(n, device=query.device).view([-1 if a == b else 1 for b in range(4)]) for a, n in enumerate((batch, heads, rows, columns))]
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query.to(wide) @ for_heads(key).to(wide).transpose(-2, -1)) * scale
    scores = score_mod(scores, *at, *of_score)
    scores = scores.masked_fill(~mask_mod(*at, *of_mask), -math.inf)
    sums, greatest = scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)
    return torch._safe_softmax(scores, -1).to(query.dtype) @ for_heads(value), sums, greatest


def _attended(query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
              proj_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
              mask_type: int | None = None) -> tuple[Any, Any]:
    """Computes _native_multi_head_attention, the fast path of nn.MultiheadAttention in inference."""
    linear, inputs = torch.nn.functional.linear, (query, key, value)
    triples = zip(inputs, qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (linear(x, w, b).unflatten(-1, (num_head, -1)).transpose(1, 2) for x, w, b in triples)
    scores = (q * (embed_dim // num_head) ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        mask = mask.bool()
        mask = mask[:, None, None] if mask_type == 1 else mask  # sizes for mask_type 1: [batch, keys]; 0: [queries, keys]
        scores = scores.masked_fill(mask, float("-inf"))
    weights = scores.softmax(-1)
    y = linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return y, weights.new_empty(0)
    return y, weights.mean(1) if average_attn_weights else weights


def _encoded(src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
             use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any,
             norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
             mask_type: int | None = None) -> Any:
    """Computes _transformer_encoder_layer_fwd, the fast path of nn.TransformerEncoderLayer in inference."""
    functions = torch.nn.functional

    def attended(x: Any) -> Any:
        return _attended(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)[0]

    def fed(x: Any) -> Any:
        hidden = functions.linear(x, ffn_weight_1, ffn_bias_1)
        return functions.linear(functions.gelu(hidden) if use_gelu else hidden.relu(), ffn_weight_2, ffn_bias_2)

    def first(x: Any) -> Any:
        return functions.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Any) -> Any:
        return functions.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attended(first(src))
        return x + fed(second(x))
    x = first(src + attended(src))
    return second(x + fed(x))


def _taken_claims(gm: fx.GraphModule) -> list[str]:
    """Removes torch._assert_async from a graph and returns the messages. The asserted conditions become the last outputs of
    the graph."""
    claims, output = gm.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_async.msg), gm.graph.output_node()
    if claims:
        output.args = ((*output.args[0], *(node.args[0] for node in claims)),)
        for node in claims:
            gm.graph.erase_node(node)
        gm.recompile()
    return [node.args[1] for node in claims]


def _claiming(run: Callable[..., Any], messages: Sequence[str]) -> Callable[..., Any]:
    """Wraps `run` and checks its last outputs, which are asserted conditions. As in eager mode, a CPU checks immediately, and a
    GPU checks by an assertion in a kernel."""

    def checked(*inputs: Any) -> tuple[Any, ...]:
        found = tuple(run(*inputs))
        for value, message in zip(found[-len(messages) :], messages, strict=True):
            torch._assert_async(value, message)  # type: ignore[no-untyped-call]
        return found[: -len(messages)]

    return checked


def _taken_views(gm: fx.GraphModule) -> fx.GraphModule | None:
    """Removes results that torch returns as views of inputs, if these views read open sizes. torch takes the offset and the
    strides of such a result from the tensor that the graph returns, and weft returns new tensors. (torch repeats other views on
    the input itself.) Returns the graph that makes all results of the inputs and the remaining results; None if nothing is removed."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None or not context.fw_metadata.num_outputs_aliased:
        return None
    output, views = gm.graph.output_node(), set()
    for node in output.args[0]:
        chain = []
        while isinstance(node, fx.Node) and (node.target is operator.getitem or getattr(node.target, "is_view", False)):
            chain.append(node)
            node = node.args[0]
        if chain and chain[-1].target is operator.getitem:  # of an operator that makes no views
            chain.pop()
        if any(isinstance(part.meta.get("val"), torch.SymInt) for view in chain for part in view.all_input_nodes):
            views |= set(chain)
    if not views:
        return None
    read = [node for node in output.all_input_nodes if node not in views]
    read += [node for view in views for node in view.all_input_nodes if node not in views]
    inputs = gm.graph.find_nodes(op="placeholder")
    left = [node for node in dict.fromkeys(read) if node.op != "placeholder"]
    tail = fx.Graph()
    made = {node: tail.placeholder(node.name) for node in (*inputs, *left)}
    for node in gm.graph.nodes:
        if node in views:
            made[node] = tail.node_copy(node, made.__getitem__)
    tail.output(fx.node.map_arg(output.args[0], made.__getitem__))
    output.args = (tuple(left),)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return fx.GraphModule(gm, tail)


@functools.cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns torch's table of decompositions and two that torch lacks. It is cached, because gathering takes half a second."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    aten = torch.ops.aten
    own = {aten._native_multi_head_attention.default: _attended, aten._transformer_encoder_layer_fwd.default: _encoded}
    return {**decomposition_table, **core_aten_decompositions(), **own}


class _Graph:
    """One graph of torch.compile. It runs on weft as a whole, or in parts with the refused nodes in eager, or wholly in eager."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any], options: dict[str, Any]) -> None:
        self.gm, self.inputs = gm, inputs
        self.fullgraph = options.get("fullgraph", False)
        self.freeze = options.get("freeze", True)
        self.options = {key: value for key, value in options.items() if key not in ("fullgraph", "freeze")}
        self.place: torch.device | None = None  # the GPU; None for the CPU
        self.held: list[torch.Tensor] = []  # tensors that were attributes of the graph, now its first inputs
        self.is_whole = False  # true if no node runs in eager
        self.decomposed: set[Any] = set()  # operators decomposed so far
        self.claims, self.views = _taken_claims(gm), _taken_views(gm)
        self.total = sum(node.op == "call_function" for node in gm.graph.nodes)

    def decompose(self, refused: dict[str, str]) -> bool:
        """Decomposes the refused nodes by torch's table. Returns False if nothing new can be decomposed, or if torch
        fails."""
        known = _decompositions()
        targets = {node.target for node in self.gm.graph.nodes if node.name in refused and node.target in known}
        table = {target: known[target] for target in targets - self.decomposed}
        self.decomposed |= targets
        if not table:
            return False
        return self.retrace(fx.Interpreter(self.gm), table)

    def retrace(self, graph: fx.Interpreter, table: dict[Any, Any]) -> bool:
        """Traces the graph again through the interpreter `graph`, with the decompositions `table`. Returns False if torch fails."""
        inputs = [node.meta["val"] for node in self.gm.graph.find_nodes(op="placeholder")]
        try:
            with torch.fx.traceback.preserve_node_meta():
                finer = _traced(lambda *given: graph.run(*given), inputs, table)
                if _writes(finer.graph):  # a decomposition may write to temporary tensors, but a write in one part is not seen in another
                    inner = fx.Interpreter(finer)
                    finer = _traced(torch.func.functionalize(lambda *given: inner.run(*given)), inputs)
        except Exception as error:  # torch cannot trace the graph for these sizes
            log.info("not decomposed: %s: %s", type(error).__name__, error)
            return False
        self.gm = finer
        self.lift()
        self.total = sum(node.op == "call_function" for node in finer.graph.nodes)
        return True

    def still(self) -> list[int]:
        """Returns the indices of the inputs that become constants: `held` tensors and, unless "freeze" is False, the
        parameters and buffers that the graph does not change."""
        context = torch._guards.TracingContext.try_get()
        held = list(range(len(self.held)))
        if not self.freeze or context is None or context.fw_metadata is None:
            return held
        changed = {i for i, info in enumerate(context.fw_metadata.input_info) if info.mutates_data or info.mutates_metadata}
        return held + [i + len(self.held) for i in context.fw_metadata.static_input_indices if i not in changed]

    def placed(self, on_weft: int, why: str = "") -> None:
        placements.append(Placement(on_weft, self.total, why))
        log.log(logging.WARNING if why else logging.INFO, "%s", placements[-1])

    def in_eager(self, why: str) -> Callable[..., Any]:
        if self.fullgraph:
            raise weft.UnsupportedError(f"error[E122]: {why}", "E122")
        self.placed(0, why)
        return self.gm.forward

    def lift(self) -> None:
        """Replaces tensors that are attributes of the graph by new inputs, which come before the other inputs."""
        graph, held = self.gm.graph, []
        first = next(iter(graph.nodes))
        for node in list(graph.find_nodes(op="get_attr")):
            value = getattr(self.gm, node.target, None)
            if not isinstance(value, torch.Tensor):
                continue
            with graph.inserting_before(first):
                port = graph.placeholder(f"held_{len(held)}")
            mode = torch._guards.detect_fake_mode(self.inputs)
            known = node.meta.get("val")
            port.meta["val"] = (mode.from_tensor(value, static_shapes=True) if mode else value) if known is None else known
            node.replace_all_uses_with(port)
            graph.erase_node(node)
            held.append(value)
        if held:
            self.gm.recompile()
        self.held = held + self.held

    def compiled(self) -> Callable[..., Any]:
        return _claiming(self.unclaimed(), self.claims) if self.claims else self.unclaimed()

    def unclaimed(self) -> Callable[..., Any]:
        if self.total == 0:
            return self.views or self.gm.forward
        self.lift()
        if any(_is_flex(node) for node in self.gm.graph.nodes):
            self.retrace(_Spelt(self.gm), {})
        run = self.placed_run()
        held, views = self.held, self.views
        if views:
            return lambda *inputs: views(*inputs, *run(*held, *inputs))
        return (lambda *inputs: run(*held, *inputs)) if held else run

    def placed_run(self) -> Callable[..., Any]:
        places = {v.device for v in self.inputs if isinstance(v, torch.Tensor) and (v.ndim or v.device.type != "cpu")}
        if len(places) > 1 or not {p.type for p in places} <= {"cpu", "cuda"}:
            return self.in_eager(f"tensors are on {' and '.join(sorted(map(str, places)))}")
        self.place = next((p for p in places if p.type == "cuda"), None)
        here = f"{'amd' if torch.version.hip else 'nvidia'}:{self.place.index or 0}" if self.place else "cpu"
        self.options.setdefault("device", here)
        try:
            text = _text(self.gm)
            refused = self.refused(text)
            while refused and self.decompose(refused):
                text = _text(self.gm)
                refused = self.refused(text)
        except Exception as error:  # torch cannot serialise the graph, or weft refuses all of it
            if self.fullgraph or isinstance(error, weft.UsageError):
                raise
            return self.in_eager(f"{type(error).__name__}: {error}".partition("\n")[0])
        if not refused:
            self.is_whole = True
            self.placed(self.total)
            return _Part(text, self.still(), self.options, None if self.fullgraph else self.gm.forward, self.place, _values(self.gm)).forward
        if self.fullgraph:
            weft.compile(text.encode(), **self.options)  # raises an error that names the line of the model
        for node in self.gm.graph.nodes:
            if node.name in refused and node.target is torch.ops.aten.as_strided.default:
                return self.in_eager(refused[node.name])  # its result must be a view of its operand; weft returns new tensors
        return self.parts(refused)

    def refused(self, text: str) -> dict[str, str]:
        """Returns the names of nodes that Weft refuses, with reasons. Nodes that are refused only because of an operand are omitted."""
        names = [node["name"] for node in json.loads(text)["graph_module"]["graph"]["nodes"]]
        with tempfile.NamedTemporaryFile("w", suffix=".pt2", delete=False) as file:
            file.write(text)
        try:
            rows = weft.support(file.name, **{k: v for k, v in self.options.items() if k == "device"})["nodes"]
        finally:
            os.unlink(file.name)
        pairs = zip(names, rows, strict=True)
        return {name: row["why"] for name, row in pairs if not row["supported"] and "unsupported node before it" not in row["why"]}

    def parts(self, refused: dict[str, str]) -> Callable[..., Any]:
        from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        from torch.fx.passes.operator_support import OperatorSupportBase

        class Support(OperatorSupportBase):
            def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
                made_by = node.args[0] if node.target is operator.getitem else node
                return node.op == "call_function" and isinstance(made_by, fx.Node) and made_by.name not in refused

        still = {self.gm.graph.find_nodes(op="placeholder")[i].name for i in self.still()}
        split = CapabilityBasedPartitioner(self.gm, Support(), allows_single_node_partition=True).partition_and_fuse()
        on_weft = 0
        for call in split.graph.find_nodes(op="call_module"):
            module = split.get_submodule(call.target)
            held = [i for i, value in enumerate(call.args) if value.op == "placeholder" and value.name in still]
            try:
                text = _text(module)
                if more := self.refused(text):
                    raise weft.UnsupportedError(next(iter(more.values())), "E122")
            except (weft.Error, RuntimeError) as error:
                log.info("a part of %s nodes runs in eager: %s", len(module.graph.nodes), error)
                continue
            on_weft += sum(node.op == "call_function" for node in module.graph.nodes)
            part = _Part(text, held, self.options, None, self.place, _values(module))
            is_single = not isinstance(module.graph.output_node().args[0], (tuple, list))
            setattr(split, call.target, _Single(part) if is_single else part)
        self.placed(on_weft, next(iter(refused.values())))
        return split.forward  # type: ignore[no-any-return]


class _Single(torch.nn.Module):
    """A part with one result. It returns the result itself, not a tuple."""

    def __init__(self, part: _Part) -> None:
        super().__init__()
        self.part = part

    def forward(self, *inputs: Any) -> Any:
        return self.part(*inputs)[0]


if "weft" not in torch._dynamo.list_backends(exclude_tags=()):
    torch._dynamo.register_backend(backend, "weft")
