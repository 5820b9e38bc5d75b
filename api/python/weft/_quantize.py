# SPDX-License-Identifier: Apache-2.0
"""weft.quantize, which writes a float model as an ONNX file in 8 or 4 bits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _weft
from ._errors import Error, UsageError


class _Calls:
    """The caller's functions during one run. The first exception of a function is stored and ends the run. `quantize` raises it after
    the run, because the library's C interface passes no exceptions on."""

    def __init__(
        self,
        data: Iterable[Any] | None,
        convert: Callable[[Any], list[_weft.Tensor | None]],
        metric: Callable[[str], float] | None,
        progress: Callable[[str, int, int], None] | None,
    ) -> None:
        self._data = list(data) if data is not None and iter(data) is data else data
        self._convert, self._metric, self._progress = convert, metric, progress
        self._pass: Iterator[Any] = iter(())
        self.failure: BaseException | None = None

    def item(self, index: int) -> tuple[int, list[_weft.Tensor | None]]:
        """Returns (1, next item of the data), (0, []) at the end, or (-1, []) after a failure. Index 0 begins a new pass over the data."""
        if self.failure or self._data is None:
            return -1, []
        try:
            if index == 0:
                self._pass = iter(self._data)
            for item in self._pass:
                return 1, self._convert(item)
            return 0, []
        except BaseException as error:
            self.failure = error
            return -1, []

    def metric(self, path: str) -> float:
        if self.failure or not self._metric:
            return float("nan")
        try:
            return float(self._metric(path))
        except BaseException as error:
            self.failure = error
            return float("nan")

    def progress(self, phase: str, done: int, total: int) -> None:
        if self.failure or not self._progress:
            return
        try:
            self._progress(phase, done, total)
        except BaseException as error:
            self.failure = error


def _feeds(item: Any, names: list[str]) -> list[Any]:
    """Returns the values of one item in the order of the inputs. The item is a mapping by name, a list or tuple, or the first input."""
    if isinstance(item, Mapping):
        unknown = [name for name in item if name not in names]
        if unknown:
            hint = f"its inputs are {', '.join(names)}"
            text = f"the model has no input '{unknown[0]}'"
            raise UsageError(f"error[E310]: {text}\n   hint: {hint}", "E310", hint=hint)
        return [item.get(name) for name in names]
    values = list(item) if isinstance(item, (tuple, list)) else [item]
    if len(values) > len(names):
        raise UsageError(f"error[E310]: an item has {len(values)} arrays, the model {len(names)} inputs", "E310")
    return values + [None] * (len(names) - len(values))


def quantize(
    model: str | os.PathLike[str],
    data: Iterable[Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    to: str = "int8",
    method: str = "",
    percentile: float = 0,
    weights: str = "",
    block: int = 0,
    symmetric: bool = False,
    per_tensor: bool = False,
    keep_bias: bool = False,
    smooth: float | None = None,
    qdq: bool = False,
    reduce_range: bool = False,
    ranges: str | os.PathLike[str] | None = None,
    keep: Iterable[str] = (),
    budget: float | None = None,
    metric: Callable[[str], float] | None = None,
    threads: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Quantises a float model to 8 or 4 bits and writes an ONNX file. Returns a report: each layer with its form and reason, and the loss.

    model: a path (.onnx, .pt2, .tflite, .pb, or the folder of a SavedModel). output: the file to write; default: MODEL.TO.onnx.
    data: examples of the inputs: an iterable of arrays, of tuples of arrays, or of {"input": array}. int8 needs data; without it, fp8
    scales inputs by the values of each run. The iterable is read several times; an iterator is kept in memory.
    to: "int8", "fp8", "fp8-fnuz", "int8-dynamic", "int8-weights" or "int4".
    method: how ranges of inputs are chosen: "mse", "minmax", "percentile" or "entropy". percentile: the share of values inside the
    range, in percent (99.99).
    weights: how weights are rounded: "nearest", "gptq" (the default of int4 and fp8 with data), for int4 and int8-weights also "hqq" and
    "awq". block: the number of weights with a common scale (32).
    symmetric: ranges are symmetric around 0. per_tensor: one scale for each weight tensor, not for each channel.
    reduce_range: weights have 7 bits, for engines whose products by u8 saturate on processors without VNNI.
    keep_bias: biases are not corrected.
    smooth: strength of SmoothQuant, which moves outliers of inputs into weights: 0 (none) to below 1. Default: int8 and int8-dynamic with
    data smooth where that costs nothing in a run.
    qdq: weights in blocks become DequantizeLinear and MatMul, not MatMulNBits.
    ranges: a calibration table that replaces data. keep: names of nodes that stay in floats (* and ? match).
    budget: limit of the loss, 0.005 for 0.5 %; layers stay in floats (with int4: in 8 bits) until it is met.
    metric: a function that gets the path of a model and returns its figure of merit, greater is better. The loss is then the relative drop
    of that figure; otherwise it is the relative error of the outputs.
    threads: number of CPU threads; 0: all that the process may use. progress: a function that is called with (phase, done, total).

    Raises UsageError for unusable data (E220), a budget that cannot be met (E221) or a model that cannot be quantised (E222).
    """
    from . import _ports, _tensor

    path = os.fspath(model)
    ports = _ports(_weft.model_inputs(path))
    names = [port.name for port in ports]

    def convert(item: Any) -> list[_weft.Tensor | None]:
        given = _feeds(item, names)
        return [None if v is None else _tensor(v, port) for v, port in zip(given, ports, strict=True)]

    q = _weft.Quantization()
    q.to, q.method, q.percentile, q.weights, q.block = to, method, percentile, weights, block
    q.symmetric, q.per_tensor, q.keep_bias, q.keep = symmetric, per_tensor, keep_bias, list(keep)
    q.reduce_range = reduce_range
    q.qdq, q.ranges = qdq, os.fspath(ranges) if ranges is not None else ""
    q.budget, q.threads = budget or 0, threads
    q.smooth = 0 if smooth is None else smooth or -1
    calls = _Calls(data, convert, metric, progress)
    q.item = calls.item if data is not None else None
    q.metric = calls.metric if metric else None
    q.progress = calls.progress if progress else None
    out = os.fspath(output) if output is not None else f"{os.path.splitext(path)[0]}.{to}.onnx"
    try:
        report: dict[str, Any] = json.loads(q.run(path, out))
    except Error as error:
        if calls.failure:
            raise calls.failure from error
        raise
    finally:
        # The functions may hold large data, and a traceback may keep `q` and `calls` alive.
        q.item = q.metric = q.progress = calls.failure = None
    return {"output": out, **report}
