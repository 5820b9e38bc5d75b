# SPDX-License-Identifier: Apache-2.0
"""Weft compiles a model into one fast program for the machine in front of you.

    import weft
    model = weft.compile("digits.onnx")
    probability = model(image)          # a numpy array in, a numpy array out; torch tensors give torch tensors
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _device, _narrow, _weft
from ._errors import DeviceError, Error, InternalError, ModelError, ResourceError, UnsupportedError, UsageError
from ._operators import Operator
from ._quantize import quantize
from ._weft import Value, __version__

if TYPE_CHECKING:
    import numpy

__all__ = [
    "DeviceError", "Error", "Graph", "InternalError", "Model", "ModelError", "Operator", "Port", "ResourceError", "Size",
    "UnsupportedError", "UsageError", "Value", "__version__", "compile", "load", "print_model",
    "quantize", "support",
]


class Size(NamedTuple):
    """An open size, which each run may choose from `min` to `max`."""

    name: str  #: "batch", "2*seq + 1"
    min: int
    max: int

    def __str__(self) -> str:
        return self.name


class Port(NamedTuple):
    """An input or output of a model."""

    name: str
    type: str  #: "f32[batch,3,224,224]"
    dtype: str  #: "f32"; "" for a value that is not a tensor
    shape: tuple[int | Size, ...]
    has_default: bool = False  #: an input that may be left out
    is_donated: bool = False  #: an input whose array a run writes an output to
    is_static: bool = False  #: an input whose value decides which program is compiled: one program for each value


def _shape_texts(shapes: Mapping[str, Sequence[Any]]) -> list[str]:
    def one(size: Any) -> str:
        if size is None:
            return "?"
        return f"{size[0]}..{size[1]}" if isinstance(size, (tuple, list)) else str(size)

    return [f"{name}={','.join(map(one, sizes))}" for name, sizes in shapes.items()]


def _pairs(given: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in given.items()]


def _names(given: Iterable[Any]) -> list[Any]:
    if isinstance(given, str):
        raise TypeError("one string instead of several")
    return list(given)


#: Conversions for the options of `compile` that the library takes in another form.
_FORMS: dict[str, Callable[[Any], Any]] = {
    "shapes": _shape_texts, "symbols": _pairs, "donate": _pairs,
    "operators": lambda operators: [op._native for op in operators], "folder": os.fspath, "dump": os.fspath,
    "constants": lambda constants: [(name, _constant(value)) for name, value in constants.items()],
}


def _options(**given: Any) -> _weft.Options:
    """Converts the options of `compile` to those of the library; an option that is None keeps the library's default."""
    options = _weft.Options()
    devices = given.pop("devices", None) or ()
    if devices:
        if given.get("device", "auto") != "auto":
            what, hint = f"device='{given['device']}' and devices={devices!r} are both given", "give one of them"
            raise UsageError(f"error[E203]: {what}\n   hint: {hint}", "E203", hint=hint)
        given["device"] = devices if isinstance(devices, str) else ",".join(devices)
    for name, value in given.items():
        if not hasattr(_weft.Options, name):
            raise TypeError(f"weft.compile has no option '{name}'")
        if value is None:
            continue
        form = _FORMS.get(name, _names if isinstance(getattr(options, name), list) else None)
        try:
            setattr(options, name, form(value) if form else value)
        except (TypeError, AttributeError) as error:
            raise TypeError(f"weft.compile: {name} takes {compile.__annotations__[name]}, not {value!r}") from error
    return options


_NUMPY = {
    "bool": "?", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8",
    "f16": "f2", "f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16",
}


def _library(value: Any) -> str:
    """Returns the name of the package that defines a value's class: "numpy", "torch"."""
    return type(value).__module__.partition(".")[0]


def _array(value: Any, dtype: Any = None) -> numpy.ndarray[Any, Any]:
    """Calls numpy.asarray. Imports numpy here and not with this package, because importing numpy is slow."""
    import numpy

    return numpy.asarray(value, dtype=dtype)


def _string_tensor(value: Any) -> _weft.Tensor:
    array = _array(value)
    strings = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1).tolist()]
    return _weft.tensor_of_strings(list(array.shape), strings)


def _numpy_type(dtype: str) -> Any:
    """Returns numpy's type for an element type; None for strings."""
    return _narrow.numpy_type(dtype) if dtype in _narrow.TYPES else _NUMPY.get(dtype)


def _tensor(value: Any, port: Port) -> _weft.Tensor:
    """Converts `value` to an input. Numbers and lists get the port's type. Contiguous arrays of numbers are not copied, unless
    their byte order is foreign or their elements have less than 8 bits."""
    if port.dtype == "string":
        return _string_tensor(value)
    if not hasattr(value, "__dlpack__"):
        value = _array(value, None if _narrow.type_of(value) else _numpy_type(port.dtype))
    elif _library(value) == "numpy" and not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    elif hasattr(value, "detach"):
        value = value.detach()
        value = value.resolve_neg() if hasattr(value, "resolve_neg") else value
    if port.is_donated and _library(value) == "numpy" and not value.flags.writeable:
        what = f"input '{port.name}' is donated, but its array cannot be written to"
        raise UsageError(f"error[E310]: {what}", code="E310", hint="give a copy")
    if narrow := _narrow.type_of(value):
        return _narrow.tensor(value, narrow)
    try:
        return _weft.tensor(value)
    except TypeError:
        what = f"{type(value).__module__}.{type(value).__qualname__}"
        raise UsageError(
            f"error[E310]: input '{port.name}' is {port.type}, {what} is not an array of numbers in host memory",
            code="E310",
            hint="give a numpy array, a torch tensor on the CPU, or anything with __dlpack__",
        ) from None


def _is_frozen(value: Any) -> bool:
    """True for a read-only numpy array, such as a file mapped for reading, unless it is a view of memory that can be written to."""
    import numpy

    if not isinstance(value, numpy.ndarray):
        return False
    while isinstance(value, numpy.ndarray):
        if value.flags.writeable:
            return False
        if value.base is None:
            return True
        value = value.base
    try:
        return memoryview(value).readonly
    except TypeError:
        return False


def _constant(value: Any) -> _weft.Tensor:
    """Converts a value to a constant of the value's own type. Copies memory that the caller could still write to. Returns a
    `_weft.Tensor` unchanged."""
    import numpy

    if isinstance(value, _weft.Tensor):
        return value
    if _library(value) == "torch":
        import torch

        copied = value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return _weft.tensor(copied)
    array = value if _is_frozen(value) else numpy.array(value, order="C")
    if array.dtype.kind in "OSU":
        return _string_tensor(array)
    narrow = _narrow.type_of(array)
    return _narrow.tensor(array, narrow) if narrow else _weft.tensor(array)


_KINDS = {"sequence": 1, "optional": 2, "map": 3}


def _inside(type_: str) -> tuple[str, str]:
    """Splits "sequence(f32[2])" into ("sequence", "f32[2]"); the kind of a tensor's type is ""."""
    kind, bracket, rest = type_.partition("(")
    return (kind, rest[:-1]) if bracket and kind in _KINDS else ("", type_)


def _container(value: Any, port: Port) -> _weft.Tensor:
    """Converts `value` to the type of the port. A sequence takes a list or tuple, a map a dict, an optional a value or None."""
    kind, inside = _inside(port.type)
    if not kind:
        return _tensor(value, port)

    def of_type(type_: str) -> Port:
        return Port(port.name, type_, "" if _inside(type_)[0] else type_.partition("[")[0], (), False, False)

    wanted = {"sequence": (list, tuple), "map": dict}.get(kind, object)
    if not isinstance(value, wanted):
        what = f"input '{port.name}' is {port.type}, {type(value).__name__} is not a {kind}"
        raise UsageError(f"error[E310]: {what}", code="E310", hint="give a list for a sequence and a dict for a map")
    if kind == "map":
        key_type, _, value_type = inside.partition(", ")
        vectors = (list(value), of_type(f"{key_type}[_]")), (list(value.values()), of_type(value_type.replace("[]", "[_]")))
        return _weft.collect(_KINDS[kind], [_tensor(vector, type_) for vector, type_ in vectors])
    items = list(value) if kind == "sequence" else [] if value is None else [value]
    return _weft.collect(_KINDS[kind], [_container(item, of_type(inside)) for item in items])


def _ports(rows: Iterable[tuple[str, str, str, list[Any] | None, bool, bool, bool]]) -> tuple[Port, ...]:
    def size(entry: Any) -> int | Size:
        return entry if isinstance(entry, int) else Size(*entry)

    return tuple(
        Port(name, type_, dtype, tuple(map(size, sizes or ())), *flags) for name, type_, dtype, sizes, *flags in rows
    )


def _result(value: Any) -> Any:
    """Converts a result of the library to a Python value. (sizes, strings) becomes an array of objects. (kind, items) becomes a list, a
    dict, or an optional value. (type name, sizes, bytes) becomes an array of a type that numpy lacks."""
    if not isinstance(value, tuple):
        return value
    if isinstance(value[0], str):
        if value[0] in _narrow.TYPES:
            return _narrow.array_of(*value)
        items = [_result(item) for item in value[1]]
        if value[0] == "map":
            return dict(zip(items[0].tolist(), items[1].tolist(), strict=True))
        return items if value[0] == "sequence" else items[0] if items else None
    sizes, strings = value
    array = _array([text.decode("utf-8", "surrogateescape") for text in strings], "object")
    return array.reshape(sizes)


def _checked_out(array: Any, port: Port) -> Any:
    """Checks an array that an output is written to. Returns the array, or its bits as integers if numpy lacks the type. The array must
    be writable, and contiguous because nanobind would copy any other array."""
    if array is None:
        return None
    flags = getattr(array, "flags", None)
    is_numpy = _library(array) == "numpy"
    contiguous = flags.c_contiguous and flags.writeable if is_numpy else getattr(array, "is_contiguous", lambda: True)()
    if not hasattr(array, "__dlpack__") or not contiguous or getattr(array, "is_neg", bool)():
        what = f"the array for output '{port.name}' cannot be written to as it lies"
        raise UsageError(f"error[E310]: {what}", "E310", hint="give a contiguous, writeable array in host memory")
    if not is_numpy or port.dtype not in _narrow.TYPES:
        return array
    if _narrow.type_of(array) != port.dtype or _narrow.TYPES[port.dtype][1] < 8:
        what = f"output '{port.name}' is {port.type}, which is not written to an array of {array.dtype}"
        raise UsageError(f"error[E310]: {what}", "E310", hint="leave out `out`, and the result is an array of its own")
    return _narrow.bits_of(array, port.dtype)


def _part(array: Any, sizes: list[int]) -> Any:
    """Returns the part of the array that the run wrote, in the shape `sizes`."""
    if list(array.shape) == sizes:
        return array
    count = 1
    for size in sizes:
        count *= size
    return array.reshape(-1)[:count].reshape(sizes)


class Model:
    """A compiled model. Any number of threads may call it at once. It releases Python's global interpreter lock while it runs.

    `inputs` and `outputs` are tuples of `Port`, in the order of a call."""

    def __init__(self, native: _weft.Model, operators: Iterable[Operator] = ()) -> None:
        self._native = native
        self._operators = tuple(operators)
        self.inputs: tuple[Port, ...] = _ports(native.inputs)
        self.outputs: tuple[Port, ...] = _ports(native.outputs)
        maker, _, number = native.device.partition(" ")[0].partition(":")
        self._gpu = int(number) if maker in ("nvidia", "amd") and number.isdigit() else None

    @property
    def device(self) -> str:
        """Names the device that runs the model: "cpu (x86-64-v3), 2 threads"."""
        return self._native.device

    def _run(self, values: Sequence[Any], deadline: float | None, out: Sequence[Any] = (), stream: Any = None) -> list[Any]:
        if self._gpu is not None and (stream is not None or any(_device.gpu_of(value) is not None for value in values)):
            places = [*out, *[None] * (len(self.outputs) - len(out))]
            inputs = list(zip(values, self.inputs, strict=True))
            outputs = list(zip(places, self.outputs, strict=True))
            return _device.run(self._native, self._gpu, inputs, outputs, stream, deadline or 0.0)
        if stream is not None:
            what, hint = f"the model is on {self.device}, which has no streams", "leave out `stream`"
            raise UsageError(f"error[E310]: {what}\n   hint: {hint}", "E310", hint=hint)

        def given(value: Any, port: Port) -> _weft.Tensor | None:
            is_left_out = value is None and not port.type.startswith("optional(")
            return None if is_left_out else _container(value, port)

        tensors = [given(value, port) for value, port in zip(values, self.inputs, strict=True)]
        framework = "torch" if any(_library(v) == "torch" for v in values) else "numpy"
        places = [_checked_out(array, port) for array, port in zip(out, self.outputs, strict=False)]
        is_bits = [_narrow.type_of(array) != "" for array in out]
        try:
            results = self._native.run(tensors, places, is_bits, framework, deadline or 0.0)
        except Error as error:
            failures = [op._failures.pop() for op in self._operators if op._failures]
            if error.code != "E302" or not failures:
                raise
            raise error from failures[0]
        given = [*out, *[None] * (len(results) - len(out))]
        return [_result(r) if g is None else _part(g, r) for r, g in zip(results, given, strict=True)]

    def _by_name(self, feeds: Mapping[str, Any]) -> list[Any]:
        unknown = [name for name in feeds if name not in {port.name for port in self.inputs}]
        if unknown:
            names = ", ".join(port.name for port in self.inputs)
            text = f"the model has no input '{unknown[0]}'"
            raise UsageError(f"error[E310]: {text}\n   hint: its inputs are {names}", "E310", hint=f"its inputs are {names}")
        return [feeds.get(port.name) for port in self.inputs]

    def __call__(self, *args: Any, deadline: float | None = None, out: Any = None, stream: Any = None, **feeds: Any) -> Any:
        """Runs the model once and returns its output, or the tuple of its outputs if there are several.

        args, feeds: the inputs in order, or by name. An input may be an array of any library with __dlpack__, a number or a
        nested list. A sequence is given as a list, a map as a dict. An input with a default may be left out.
        deadline: limit in seconds.
        out: an array that the output is written to, or a tuple with an array or None for each output; for None, Weft makes the array.
        stream: as for `run`.

        For inputs in host memory, the outputs are numpy arrays, or torch tensors if an input is one; for a GPU, see `run`.
        Raises UsageError for inputs that do not fit, ResourceError when the deadline passes or memory is short.
        """
        if len(args) > len(self.inputs):
            text = f"the model has {len(self.inputs)} inputs, {len(args)} are given"
            raise UsageError(f"error[E310]: {text}", "E310")
        named = {port.name: value for port, value in zip(self.inputs, args, strict=False)}
        twice = [name for name in feeds if name in named]
        if twice:
            raise UsageError(f"error[E310]: input '{twice[0]}' is given twice", "E310")
        arrays = () if out is None else out if isinstance(out, tuple) else (out,)
        if len(arrays) > len(self.outputs):
            raise UsageError(f"error[E310]: the model has {len(self.outputs)} outputs, out has {len(arrays)}", "E310")
        outputs = self._run(self._by_name(named | feeds), deadline, arrays, stream)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        deadline: float | None = None,
        out: Mapping[str, Any] | None = None,
        stream: Any = None,
    ) -> dict[str, Any]:
        """Runs the model once, with inputs and outputs by name: run({"x": x}) returns {"y": y}.

        deadline: limit in seconds. out: arrays for outputs, {"y": array}; an array in host memory may have more elements than the
        output. stream: for a model on a GPU, the stream on which the work is queued: an address, or an object of torch or cupy. The
        default is the current stream of torch or cupy.

        A model on a GPU also takes arrays in its memory, with __dlpack__. For arrays of torch or cupy, it then returns such arrays;
        for other arrays, it needs `out`. Raises the same errors as a call."""
        out = out or {}
        unknown = [name for name in out if name not in {port.name for port in self.outputs}]
        if unknown:
            names = ", ".join(port.name for port in self.outputs)
            raise UsageError(f"error[E310]: the model has no output '{unknown[0]}'\n   hint: its outputs are {names}", "E310")
        arrays = [out.get(port.name) for port in self.outputs] if out else []
        outputs = self._run(self._by_name(feeds), deadline, arrays, stream)
        return {port.name: value for port, value in zip(self.outputs, outputs, strict=True)}

    def report(self) -> dict[str, Any]:
        """Returns a report: device, inputs, outputs, metadata, figures of compiling (times in seconds), notes, and steps."""
        report: dict[str, Any] = json.loads(self._native.report())
        return report

    def steps(self) -> list[dict[str, str]]:
        """Returns the steps of the program, each with "kernel", "source" (the nodes it computes), "device", and "reason" (of the choice
        of the kernel)."""
        steps: list[dict[str, str]] = self.report()["steps"]
        return steps

    def save(self, path: str | os.PathLike[str], targets: Iterable[str] = ()) -> None:
        """Writes the program to a file. `weft.load` reads it in milliseconds, without a compiler.

        targets: further chips for which the file holds code: "cpu:x86-64-v4", "nvidia:sm_90a", "amd:gfx942".
        Raises UsageError if the file cannot be created, ResourceError if the disk is full, UnsupportedError for a program that cannot be
        saved (E406).
        """
        self._native.save(os.fspath(path), list(targets))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{port.name}: {port.type}" for port in self.inputs)
        outputs = ", ".join(f"{port.name}: {port.type}" for port in self.outputs)
        return f"<weft.Model ({inputs}) -> ({outputs}) on {self.device}>"

    def _repr_html_(self) -> str:
        rows = [("input", port) for port in self.inputs] + [("output", port) for port in self.outputs]
        cells = "".join(
            f"<tr><td>{kind}</td><td>{html.escape(port.name)}</td><td><code>{html.escape(port.type)}</code></td></tr>"
            for kind, port in rows
        )
        return f"<table><caption>weft.Model on {html.escape(self.device)}</caption>{cells}</table>"


def compile(
    model: str | os.PathLike[str] | bytes,
    *,
    device: str = "auto",
    devices: Sequence[str] = (),
    threads: int = 0,
    precision: str = "f32",
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbols: Mapping[str, int] | None = None,
    keep_f32: Iterable[str] = (),
    folder: str | os.PathLike[str] | None = None,
    dump: str | os.PathLike[str] | None = None,
    cache: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
    constants: Mapping[str, Any] | None = None,
    fixed_defaults: Iterable[str] = (),
    donate: Mapping[str, str] | None = None,
    operators: Iterable[Operator] = (),
    memory_limit: int = 0,
    tune: float = 0,
    deadline: float | None = None,
    tag: str | None = None,
    signature: str | None = None,
    outputs: Iterable[str] = (),
    channels_first: bool = False,
) -> Model:
    """Compiles a model and returns it, ready to run. A saved program (.weft) is loaded.

    model: a path (.onnx, .pt2, .tflite, .pb, .weft, or the folder of a SavedModel), or the bytes of a file.
    device: "auto" (the first GPU if it can run the model, else the CPU), "cpu", "gpu", "nvidia:0", "amd:0" or "ref".
    devices: several devices that compute each run together, ("gpu:0", "gpu:1"), or "cpu" any number of times. The weights of products
    are split between them (tensor parallelism).
    threads: threads of the CPU; 0: WEFT_THREADS, else all cores that this process may use.
    precision: f32, bf16 or f16 for matrix products and convolutions of f32 models.
    shapes: sizes of inputs, {"x": (1, 3, 224, 224)}; (1, 8) or "1..8" is a range; None keeps the model's size.
    symbols: values of sizes that the model names, {"batch": 4}.
    keep_f32: nodes that stay in f32; * and ? match.
    folder: folder of the external weights, for a model in bytes.
    dump: folder that receives the program after every pass.
    cache: use the kernel cache on disk, and the measurements of `weft tune`.
    progress: a function that is called with (phase, done, total).
    constants: inputs with a fixed value, {"axes": np.array([0])}; the model lacks these inputs; arrays are copied, unless they are
    read-only.
    fixed_defaults: inputs (* and ? match) that keep the model's default and are no inputs then.
    donate: {"past": "present"} writes the output "present" to the memory of the input "past", which the caller gives up, if the program
    allows that; report()["notes"] says whether it does.
    operators: custom operators (`weft.Operator`) that the model may use.
    memory_limit: most bytes of a run and its weights (E401); 0: WEFT_MEMORY_LIMIT, else all.
    tune: seconds for measuring which kernels are fastest here; later compiles use the measurements too.
    deadline: limit in seconds from the call (E403); kernels compiled before it passes are cached.
    tag: tags of the graph in a SavedModel: serve; serve,gpu; none: the only one, or serve.
    signature: the signature of a SavedModel or .tflite file; none: the only one, or serving_default.
    outputs: values of a TensorFlow graph to return in place of its outputs: node, node:1.
    channels_first: inputs and outputs of a TensorFlow graph with 4 axes are [n, c, h, w].

    Raises UsageError for a missing file or wrong options, ModelError for an invalid model, UnsupportedError for
    operators or types without an implementation, ResourceError when the deadline passes or memory is short, DeviceError if a device
    fails.
    """
    given = {name: value for name, value in locals().items() if name != "model"}
    given["operators"] = operators = tuple(operators)
    options = _options(**given)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Model(_weft.compile_bytes(bytes(model), options), operators)
    return Model(_weft.compile(os.fspath(model), options), operators)


def load(path: str | os.PathLike[str], *, threads: int = 0) -> Model:
    """Loads a saved program, whose weights are mapped from the file. threads: number of CPU threads; 0: all that the process may use.

    Raises UsageError for a file that is missing or not a saved program, ModelError for a damaged one, UnsupportedError if it holds no
    code for a device of this machine."""
    return Model(_weft.load(os.fspath(path), _options(threads=threads)))


def print_model(model: str | os.PathLike[str], stage: str = "", **options: Any) -> str:
    """Returns the program of a model as text: as it was read, or after the pass called `stage` ("final": after all passes).
    options: as for `compile`."""
    return _weft.print_model(os.fspath(model), stage, _options(**options))


def support(model: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Returns which nodes of a model a device can run, without compiling the model. options: as for `compile`.

    Returns {"supported", "total", "nodes": [{"node", "op", "supported", "why"}]}. The first two are counts of nodes. "why" is the reason
    why the device does not run a node, "" for a supported node.
    """
    answer: dict[str, Any] = json.loads(_weft.support(os.fspath(model), _options(**options)))
    return answer


class Graph:
    """Builds a program from operators in Weft's text form.

    graph = weft.Graph("double")
    x = graph.input("x", "f32[batch,64]")
    graph.output("y", graph.append("add", x, x))
    model = graph.compile()
    """

    def __init__(self, name: str = "") -> None:
        self._native = _weft.Graph(name)
        self._operators: list[Operator] = []

    @classmethod
    def parse(cls, text: str) -> Graph:
        """Makes a graph from a whole program in text form. Raises ModelError with the line of a mistake."""
        graph = cls()
        graph._native = _weft.Graph.parse(text)
        return graph

    def symbol(self, name: str, min: int = 0, max: int = 2**63 - 1) -> None:
        """Sets the bounds (inclusive) of a named size. Call this before the first type that uses the name."""
        self._native.symbol(name, min, max)

    def input(self, name: str, type: str) -> Value:
        """Adds an input of a type such as "f32[batch,64]" and returns its value."""
        return self._native.input(name, type)

    def constant(self, array: Any) -> Value:
        """Adds an array (numpy, torch, numbers or strings) as a constant and returns its value. The array is copied unless it is
        read-only, so later changes of the array do not change the constant."""
        return self._native.constant(_constant(array))

    def append(self, op: str, *inputs: Value) -> Value:
        """Appends an operator and returns its result: append("softmax {axis=1}", x). Raises ModelError if operands do not fit."""
        return self._native.append(op, list(inputs))

    def add_operator(self, operator: Operator) -> None:
        """Makes an operator known to later calls of append: append("mine:Squash {limit=1.0}", x)."""
        self._native.add_operator(operator._native)
        self._operators.append(operator)

    def source(self, place: str) -> None:
        """Sets the place that errors and profiles show for instructions appended from now on."""
        self._native.source(place)

    def output(self, name: str, value: Value) -> None:
        """Makes a value an output of the program."""
        self._native.output(name, value)

    def type(self, value: Value) -> str:
        """Returns the type of a value as text: "f32[batch,64]"."""
        return self._native.type(value)

    def compile(self, **options: Any) -> Model:
        """Compiles the graph with the options of `weft.compile`, except `operators`. The graph cannot be used afterwards."""
        return Model(self._native.compile(_options(**options, operators=self._operators)), self._operators)

    def __str__(self) -> str:
        return str(self._native)
