# SPDX-License-Identifier: Apache-2.0
"""Custom operators that a Python program defines."""

from __future__ import annotations

import ast
import ctypes
import json
import math
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _weft
from ._errors import UsageError

if TYPE_CHECKING:
    import numpy

_TYPE = re.compile(r"(\w+)\s*(?:\[([^\]]*)\])?")
_NUMPY = {
    "bool": "?", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8",
    "f16": "f2", "f32": "f4", "f64": "f8",
}


def _patterns(text: str) -> list[tuple[str, list[str] | None]]:
    """Splits "f32[n, 3], f32[...]" into [("f32", ["n", "3"]), ("f32", None)]: element type and sizes."""
    found = []
    for dtype, sizes in _TYPE.findall(text):
        if sizes.strip() == "...":
            found.append((dtype, None))
        else:
            found.append((dtype, [size.strip() for size in sizes.split(",") if size.strip()]))
    return found


_HELPERS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "ceildiv": lambda a, b: -(-a // b),
    "mod": operator.mod,
    "min": min,
    "max": max,
}
_BINARY: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
}


def _size(text: str, known: dict[str, int]) -> int:
    """Computes the value of a size such as "2*n + 1"."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return int(node.value)
        if isinstance(node, ast.Name):
            return known[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return _HELPERS[node.func.id](*map(value, node.args))
        raise UsageError(f"error[E217]: '{text}' is not a size", "E217")

    return value(ast.parse(text, mode="eval").body)


class _Rule:
    """The rule of an operator with a callback; it must have one alternative. Makes the arrays that the callback gets."""

    def __init__(self, rule: str) -> None:
        if ";" in rule or "->" not in rule:
            raise UsageError(f"error[E217]: a callback takes a rule with one alternative, not '{rule}'", "E217")
        operands, results = rule.split("->", 1)
        self.operands, self.results = _patterns(operands), _patterns(results)
        names: list[str] = []
        for dtype, sizes in self.operands:
            if dtype not in _NUMPY:
                raise UsageError(f"error[E217]: a callback gets no arrays of {dtype}", "E217")
            for size in sizes if sizes is not None else ["count"]:
                if not size.isdigit() and size not in names:
                    names.append(size)
        self.names = names

    def arrays(self, addresses: list[int], sizes: list[int]) -> list[numpy.ndarray[Any, Any]]:
        """Returns views of operands and results, for the sizes of a run. A view with sizes "..." in the rule is flat."""
        import numpy

        known = dict(zip(self.names, sizes, strict=True))
        found: list[numpy.ndarray[Any, Any]] = []
        for address, (dtype, texts) in zip(addresses, self.operands + self.results, strict=True):
            shape = [_size(text, known) for text in (texts if texts is not None else ["count"])]
            kind = numpy.dtype(_NUMPY[dtype])
            count = math.prod(shape)
            if count > 0:
                memory = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
                array = numpy.frombuffer(memory, kind, count).reshape(shape)
            else:
                array = numpy.empty(shape, kind)
            if len(found) < len(self.operands):
                array.flags.writeable = False
            found.append(array)
        return found


def _attributes(text: str) -> dict[str, Any]:
    """Parses attributes from lines such as "alpha=0.5"; a value is JSON."""
    return {name: json.loads(value) for name, _, value in (line.partition("=") for line in text.splitlines()) if name}


def _guarded(
    call: Callable[..., None], rule: _Rule, failures: list[BaseException]
) -> Callable[[str, list[int], list[int]], int]:
    """Makes the function that the C++ side calls. The function must not refer to its operator: the operator owns it through native
    code, where Python's collector does not find cycles."""

    def run(attributes: str, addresses: list[int], sizes: list[int]) -> int:
        try:
            call(*rule.arrays(addresses, sizes), **_attributes(attributes))
        except BaseException as failure:  # must not pass native code; becomes the cause of the run's error
            failures.append(failure)
            return 1
        return 0

    return run


class Operator:
    """A custom operator, for models (`weft.compile(..., operators=[...])`) and graphs (`graph.append`).

    name: the name in nodes, "my.domain:Squash".
    rule: the types of operands and results over named sizes, "f32[n,k], f32[k] -> f32[n]"; "f32[...]" has any sizes, and ';' separates
    alternatives.
    source: code in the kernel language that defines `function`. It is compiled for the chip and saved with the program.
    tasks: the number of the kernel's tasks, an expression over the sizes. pointwise: the function computes single elements.
    call: without `source`, a Python function that computes the operator on the CPU. It gets operands and results as arrays and the
    attributes by name; a tensor of type "f32[...]" is flat:

        def scale(x, y, alpha):
            y[:] = alpha * x

    Operand arrays are read-only. The function must keep no array. Any thread of a run may call it, with the interpreter's lock.
    Raises UsageError (E217) for a rule that `call` cannot have: with alternatives, or with operands of other types than numpy has.
    """

    def __init__(
        self,
        name: str,
        rule: str,
        *,
        source: str = "",
        function: str = "",
        tasks: str = "1",
        pointwise: bool = False,
        call: Callable[..., None] | None = None,
    ) -> None:
        self.name, self.rule = name, rule
        self._failures: list[BaseException] = []
        wanted = _Rule(rule) if call else None
        self._native = _weft.Operator(
            name=name,
            rule=rule,
            source=source,
            function=function,
            tasks=tasks,
            is_pointwise=pointwise,
            call=_guarded(call, wanted, self._failures) if call and wanted else None,
            buffer_count=len(wanted.operands + wanted.results) if wanted else 0,
            size_count=len(wanted.names) if wanted else 0,
        )
