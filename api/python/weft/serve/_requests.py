# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of inference: the parts that HTTP and gRPC share."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import weft

from .. import _weft
from ._repository import GONE, TOO_LATE, TOO_MANY, Repository, Served
from ._tensors import TYPES, Output, Refused, bad, checked_shape

#: the accepted parameters of a request; others are refused, since they would have no effect
PARAMETERS = {"binary_data_output", "timeout"}


@dataclasses.dataclass
class Parameters:
    deadline: float = 0.0  #: in seconds; 0: none
    all_binary: bool = False


def parameters_of(given: dict[str, Any]) -> Parameters:
    """Checks and converts the parameters of a request. Their `timeout` is in microseconds, as in Triton."""
    if unknown := sorted(set(given) - PARAMETERS):
        raise bad(f"the parameter '{unknown[0]}' of a request is not supported; these are: {', '.join(sorted(PARAMETERS))}")
    timeout, binary = given.get("timeout", 0), given.get("binary_data_output", False)
    if type(timeout) is not int or not 0 <= timeout < 1 << 53:
        raise bad("the parameter 'timeout' is not a whole number of microseconds")
    if type(binary) is not bool:
        raise bad("the parameter 'binary_data_output' is neither true nor false")
    return Parameters(timeout / 1e6, binary)


class Inputs:
    """The inputs of one request, put in the model's order."""

    def __init__(self, served: Served) -> None:
        self._ports = {port.name: (index, port) for index, port in enumerate(served.inputs)}
        self.tensors: list[_weft.Tensor | None] = [None] * len(served.inputs)

    def port(self, name: Any, datatype: Any, shape: Any) -> tuple[str, list[int]]:
        """Checks an input's name, data type and sizes in a request; returns its element type and sizes."""
        if not isinstance(name, str) or name not in self._ports:
            raise bad(f"the model has no input {name!r:.200}; its inputs: {', '.join(self._ports)}")
        index, port = self._ports[name]
        if self.tensors[index] is not None:
            raise bad(f"input '{name}' is given twice")
        if datatype != TYPES[port.dtype][0]:
            raise bad(f"input '{name}' is {TYPES[port.dtype][0]}, {datatype!r:.80} is given")
        return port.dtype, checked_shape(shape, name)

    def put(self, name: str, tensor: _weft.Tensor) -> None:
        self.tensors[self._ports[name][0]] = tensor


def chosen(outputs: list[Output], names: list[Any]) -> list[Output]:
    """Returns the requested outputs in the requested order; all if none is named."""
    by_name = {output.name: output for output in outputs}
    return [by_name[name] for name in names] if names else outputs


def check_names(served: Served, names: list[Any]) -> None:
    known = [port.name for port in served.outputs]
    if unknown := [name for name in names if name not in known]:
        raise bad(f"the model has no output {unknown[0]!r:.200}; its outputs: {', '.join(known)}")
    if len(set(names)) < len(names):
        raise bad("an output is asked for twice")


def refusal_of(error: BaseException) -> Refused:
    """Returns the HTTP status and the message for an error. The status is 4xx if the client is at fault or the queue is full, else 5xx."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, asyncio.TimeoutError):
        return Refused(504, "the deadline of the request passed")
    if not isinstance(error, weft.Error):
        return Refused(500, f"{type(error).__name__} while serving the request")
    text = str(error).partition("\n")[0].removeprefix("error")
    statuses = {TOO_MANY: 429, TOO_LATE: 504, GONE: 503, "E401": 413, "E400": 503, "E301": 400, "E303": 400, "E314": 400}
    status = statuses.get(error.code, 400 if isinstance(error, (weft.UsageError, weft.ModelError)) else 500)
    return Refused(status, text)


async def infer(served: Served, inputs: Inputs, parameters: Parameters) -> list[Output]:
    try:
        return await served.infer(inputs.tensors, parameters.deadline)
    except (weft.Error, asyncio.TimeoutError) as error:
        raise refusal_of(error) from None


__all__ = ["Inputs", "Parameters", "Repository", "check_names", "chosen", "infer", "parameters_of", "refusal_of"]
