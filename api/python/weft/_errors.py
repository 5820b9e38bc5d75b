# SPDX-License-Identifier: Apache-2.0
"""The exceptions of Weft: one class for each kind of error, also derived from a built-in exception of Python."""

from __future__ import annotations


class Error(Exception):
    """A failure that Weft reports. `str(error)` is the whole message; docs/errors.md explains the codes.

    code: "E310". where: the file or node. why: the reason in detail. hint: what to do. Each may be ""."""

    kind: str = "internal"

    def __init__(self, text: str, code: str = "", where: str = "", why: str = "", hint: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.where = where
        self.why = why
        self.hint = hint

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str, str, str]]:
        return type(self), (str(self), self.code, self.where, self.why, self.hint)


class UsageError(Error, ValueError):
    """A wrong option, argument or input."""

    kind = "usage"


class ModelError(Error, ValueError):
    """The model or the saved program is invalid."""

    kind = "model"


class UnsupportedError(Error, NotImplementedError):
    """The model is valid, but an operator, a type or the device is not supported. (NotImplementedError is a RuntimeError.)"""

    kind = "unsupported"


class ResourceError(Error, MemoryError):
    """Memory, time or disk space is not sufficient."""

    kind = "resource"


class DeviceError(Error, RuntimeError):
    """A device or driver failed."""

    kind = "device"


class InternalError(Error, RuntimeError):
    """A bug of Weft."""


_CLASSES: dict[int, type[Error]] = {
    2: UsageError,
    3: ModelError,
    4: UnsupportedError,
    5: ResourceError,
    6: DeviceError,
}


def make(kind: int, text: str, code: str, where: str, why: str, hint: str) -> Error:
    """Makes the exception for a status of the C interface."""
    return _CLASSES.get(kind, InternalError)(text, code, where, why, hint)
