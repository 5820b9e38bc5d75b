# SPDX-License-Identifier: Apache-2.0
"""Runs a model on arrays in the memory of a GPU, without copies, on a stream of the caller."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _weft
from ._errors import UsageError

if TYPE_CHECKING:
    from . import Port

_CUDA, _ROCM = 2, 10  # device types of DLPack
_TORCH = {
    "bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
}
_NAMES = {f"torch.{name}": dtype for dtype, name in _TORCH.items()}


def _refuse(what: str, hint: str) -> UsageError:
    return UsageError(f"error[E310]: {what}\n   hint: {hint}", "E310", hint=hint)


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def gpu_of(value: Any) -> int | None:
    """Returns the number of the GPU that holds an array; None if it is in host memory."""
    where = getattr(value, "__dlpack_device__", None)
    if where is None:
        return None
    kind, number = where()
    return int(number) if kind in (_CUDA, _ROCM) else None


def stream_of(stream: Any, values: Sequence[Any]) -> int:
    """Returns the address of a stream. `stream` is an address, an object of torch or cupy, or None. None stands for the current stream
    of the first array of torch or cupy; without such an array, for the default stream (0)."""
    if stream is not None:
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is not None:
            return int(protocol()[1])
        return int(getattr(stream, "cuda_stream", getattr(stream, "ptr", stream)))
    for value in values:
        if _library(value) == "torch":
            return int(importlib.import_module("torch").cuda.current_stream(value.device).cuda_stream)
        if _library(value) == "cupy":
            return int(importlib.import_module("cupy").cuda.get_current_stream().ptr)
    return 0


def _place(value: Any, port: Port, what: str, gpu: int, stream: int) -> tuple[int, Sequence[int], Any]:
    """Returns the address and sizes of an array, and the owner of its memory. Raises UsageError if the array does not fit the port."""
    number = gpu_of(value)
    if number != gpu:
        where = "in host memory" if number is None else f"on GPU {number}"
        raise _refuse(f"{what} '{port.name}' is {where}, the model is on GPU {gpu}", "put all arrays of a call on that GPU")
    if _library(value) == "torch":
        value = value.detach().resolve_neg() if what == "input" else value
        dtype, address, sizes = _NAMES.get(str(value.dtype), str(value.dtype)), value.data_ptr(), value.shape
        is_contiguous = value.is_contiguous() and not value.is_neg()
    else:
        ahead = stream or (1 if value.__dlpack_device__()[0] == _CUDA else 0)
        try:
            address, sizes, dtype = _weft.memory_of(value.__dlpack__(stream=ahead))
            is_contiguous = True
        except TypeError:
            address, sizes, dtype, is_contiguous = 0, (), port.dtype, False
    if not is_contiguous:
        raise _refuse(f"{what} '{port.name}' is not contiguous", "give a contiguous array")
    if dtype != port.dtype:
        raise _refuse(f"{what} '{port.name}' is {port.type}, the array holds {dtype}", f"convert it to {port.dtype}")
    return address, sizes, value


def _empty(like: Any, port: Port, sizes: list[int]) -> Any:
    library = _library(like)
    if library == "torch":
        torch = importlib.import_module("torch")
        return torch.empty(sizes, dtype=getattr(torch, _TORCH[port.dtype]), device=like.device)
    if library == "cupy" and port.dtype in _TORCH and port.dtype not in ("bf16",):
        cupy = importlib.import_module("cupy")
        with cupy.cuda.Device(like.device.id):
            return cupy.empty(sizes, dtype=_TORCH[port.dtype])
    raise _refuse(f"arrays of {library} have no memory for output '{port.name}'", "give `out`, or arrays of torch or cupy")


def run(
    native: _weft.Model,
    gpu: int,
    inputs: Sequence[tuple[Any, Port]],
    outputs: Sequence[tuple[Any, Port]],
    stream: Any,
    deadline: float,
) -> list[Any]:
    """Queues one run and returns its output arrays, whose contents are valid once the stream has executed the run."""
    values = [value for value, _ in inputs]
    where = stream_of(stream, values)
    given = [_place(value, port, "input", gpu, where) for value, port in inputs]
    results: list[Any] = [None] * len(outputs)

    def allocate(index: int, sizes: list[int]) -> int:
        array, port = outputs[index]
        results[index] = array if array is not None else _empty(values[0], port, sizes)
        address, have, _ = _place(results[index], port, "output", gpu, where)
        if list(have) != sizes:
            raise _refuse(f"the array for output '{port.name}' has sizes {list(have)}, it takes {sizes}", "give one of these sizes")
        return address

    native.run_at([p[0] for p in given], [p[1] for p in given], allocate, where, deadline)
    return results
