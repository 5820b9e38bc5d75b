# SPDX-License-Identifier: Apache-2.0
"""weft.quantize: a float model becomes an ONNX file in 8 or 4 bits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _weft
from ._errors import Error, UsageError


class _Items:
    """An iterable that is read in several passes: asking for item 0 begins a new pass. A plain iterator is kept as a
    list."""

    def __init__(self, data: Iterable[Any], convert: Callable[[Any], list[_weft.Tensor | None]]) -> None:
        self._data = list(data) if iter(data) is data else data
        self._convert = convert
        self._pass: Iterator[Any] = iter(())
        self.failure: BaseException | None = None

    def __call__(self, index: int) -> tuple[int, list[_weft.Tensor | None]]:
        try:
            if index == 0:
                self._pass = iter(self._data)
            for item in self._pass:
                return 1, self._convert(item)
            return 0, []
        except BaseException as error:
            self.failure = error
            return -1, []


class _Metric:
    def __init__(self, call: Callable[[str], float]) -> None:
        self._call = call
        self.failure: BaseException | None = None

    def __call__(self, path: str) -> float:
        try:
            return float(self._call(path))
        except BaseException as error:
            self.failure = error
            return float("nan")


def _feeds(item: Any, names: list[str]) -> list[Any]:
    """The values of one item by position: a mapping by name, a sequence of all inputs, or the one input."""
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
    """Writes `model` (.onnx, .pt2, .tflite, .pb, a SavedModel) in 8 or 4 bits to `output` (model.TO.onnx), an ONNX file that any engine runs. Gives a report:
    each layer, what became of it and why, the loss.

    data: examples of the inputs, an iterable of arrays, of tuples of arrays, or of {"input": array}; int8 needs it; fp8 without it
    scales inputs by the values of each run.
    It is read several times; what can be read only once is kept in memory.
    to: "int8", "fp8", "fp8-fnuz", "int8-dynamic", "int8-weights", "int4". method: how ranges of inputs are chosen: "mse", "minmax",
    "percentile" (percentile: the share inside, 99.99), "entropy". weights: how weights are rounded: "nearest", "gptq" (which
    int4 and fp8 take when there is data), of "int4" and "int8-weights" also "hqq", "awq"; block: how many share a scale (32). symmetric: ranges around 0. per_tensor: a scale for each weight, not
    for each of its channels. reduce_range: weights of 7 bits, for engines whose products by u8 saturate on processors without VNNI.
    keep_bias: biases stay as they are. smooth: moves outliers of inputs into weights (SmoothQuant):
    0.5 half of them, 0 nothing; by default int8 chooses where it costs nothing. qdq: weights in blocks become DequantizeLinear
    and MatMul, not MatMulNBits.
    ranges: a calibration table in place of data. keep: nodes (* and ? match) that stay in floats.
    budget: the greatest loss; layers stay in floats until it is met. metric: a function of a model's path, the greater the
    better; the loss is the share of it that goes. Without one it is the relative error of the outputs.
    progress: called with (phase, done, total).
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
    q.budget, q.threads, q.progress = budget or 0, threads, progress
    q.smooth = 0 if smooth is None else smooth or -1
    calls = [_Items(data, convert) if data is not None else None, _Metric(metric) if metric else None]
    q.item, q.metric = calls
    out = os.fspath(output) if output is not None else f"{os.path.splitext(path)[0]}.{to}.onnx"
    try:
        report: dict[str, Any] = json.loads(q.run(path, out))
    except Error as error:
        failures = [call.failure for call in calls if call and call.failure]
        if failures:
            raise failures[0] from error
        raise
    finally:
        q.item = q.metric = q.progress = None  # a traceback could keep them alive in a cycle
    return {"output": out, **report}
