# SPDX-License-Identifier: Apache-2.0
"""Tensors of the v2 protocol: names of types, JSON, and the binary extension."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np

from .. import _weft

#: maps an element type to its name in the protocol and the numpy type that holds its bits
TYPES = {
    "bool": ("BOOL", "?"), "u8": ("UINT8", "u1"), "u16": ("UINT16", "<u2"), "u32": ("UINT32", "<u4"), "u64": ("UINT64", "<u8"),
    "i8": ("INT8", "i1"), "i16": ("INT16", "<i2"), "i32": ("INT32", "<i4"), "i64": ("INT64", "<i8"), "f16": ("FP16", "<f2"),
    "f32": ("FP32", "<f4"), "f64": ("FP64", "<f8"), "bf16": ("BF16", "<u2"), "string": ("BYTES", "O"),
}
MOST_AXES, MOST_ELEMENTS = 32, 1 << 40


class Refused(Exception):
    """An error that answers a request: its HTTP status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def bad(message: str) -> Refused:
    return Refused(400, message)


def is_whole(value: Any) -> bool:
    return type(value) is int


def checked_shape(shape: Any, name: str) -> list[int]:
    """Returns the shape; raises Refused for sizes that no tensor can have."""
    is_list = isinstance(shape, list) and len(shape) <= MOST_AXES and all(is_whole(n) and 0 <= n < MOST_ELEMENTS for n in shape)
    if not is_list or count_of(shape) > MOST_ELEMENTS:
        raise bad(f"the shape of '{name}' is not a list of at most {MOST_AXES} whole numbers, or too large for memory")
    return shape


def count_of(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


# --- inputs ---------------------------------------------------------------------------------------------------------


def flat(data: Any, name: str) -> list[Any]:
    """Returns the elements of a list, or of nested lists of at most MOST_AXES levels."""
    if not isinstance(data, list):
        raise bad(f"the data of '{name}' is not a list")
    for _ in range(MOST_AXES):
        kinds = set(map(type, data))
        if list not in kinds:
            return data
        if kinds != {list}:
            break
        data = list(itertools.chain.from_iterable(data))
    raise bad(f"the data of '{name}' mixes lists and elements, or is nested too deep")


def numbers(data: list[Any], dtype: str, name: str) -> np.ndarray:
    """Converts elements to an array of the type; of bf16, an array of their bits. Raises Refused for elements that do not fit."""
    kinds = set(map(type, data))
    allowed = {bool} if dtype == "bool" else {int, float} if dtype in ("f16", "f32", "f64", "bf16") else {int}
    if not kinds <= allowed:
        raise bad(f"the data of '{name}' is not of type {TYPES[dtype][0]}")
    try:
        if dtype == "bf16":
            return to_bf16(np.array(data, np.float32))
        return np.array(data, TYPES[dtype][1])
    except (OverflowError, ValueError):
        raise bad(f"the data of '{name}' has a number outside the range of {TYPES[dtype][0]}") from None


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Returns the bits of the values as bf16, rounded to nearest even."""
    bits = values.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def texts(data: list[Any], name: str) -> list[bytes]:
    if not set(map(type, data)) <= {str}:
        raise bad(f"the data of '{name}' is not of type BYTES")
    try:
        return [text.encode() for text in data]
    except UnicodeEncodeError:
        raise bad(f"the data of '{name}' has a lone surrogate") from None


def counted(elements: Any, shape: list[int], name: str) -> Any:
    if len(elements) != count_of(shape):
        raise bad(f"'{name}' has {len(elements)} elements, its shape {shape} has {count_of(shape)}")
    return elements


def tensor_from_list(dtype: str, shape: list[int], data: Any, name: str) -> _weft.Tensor:
    elements = counted(flat(data, name), shape, name)
    return tensor_from_texts(shape, texts(elements, name)) if dtype == "string" else tensor_from_array(dtype, shape, numbers(elements, dtype, name))


def tensor_from_array(dtype: str, shape: list[int], array: np.ndarray) -> _weft.Tensor:
    array = array.reshape(shape)
    return _weft.tensor_of_bits(array, dtype, shape) if dtype == "bf16" else _weft.tensor(array)


def tensor_from_texts(shape: list[int], elements: list[bytes]) -> _weft.Tensor:
    return _weft.tensor_of_strings(shape, elements)


def tensor_from_bytes(dtype: str, shape: list[int], data: memoryview, name: str) -> _weft.Tensor:
    """Reads a tensor of the binary extension: row-major elements, little-endian; each string follows its length in 4 bytes."""
    if dtype == "string":
        return tensor_from_texts(shape, counted(split_texts(data, name), shape, name))
    type_ = np.dtype(TYPES[dtype][1])
    wanted = count_of(shape) * type_.itemsize
    if len(data) != wanted:
        raise bad(f"'{name}' has {len(data)} bytes, its shape {shape} of {TYPES[dtype][0]} has {wanted}")
    if dtype == "bool" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise bad(f"'{name}' has a byte that is neither 0 nor 1")
    return tensor_from_array(dtype, shape, np.frombuffer(data, type_))


def split_texts(data: memoryview, name: str) -> list[bytes]:
    elements, at = [], 0
    while at < len(data):
        if at + 4 > len(data):
            raise bad(f"the bytes of '{name}' end within a length")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if length > len(data) - at:
            raise bad(f"'{name}' has a text of {length} bytes where {len(data) - at} are left")
        elements.append(bytes(data[at : at + length]))
        at += length
    return elements


# --- outputs --------------------------------------------------------------------------------------------------------


class Output:
    """A result of a run, which can be sent as JSON or as bytes."""

    def __init__(self, name: str, dtype: str, value: Any) -> None:
        self.name, self.dtype = name, dtype
        self.datatype, kind = TYPES[dtype]
        self._texts: list[bytes] = []
        if dtype == "string":  # value: (sizes, texts)
            self.shape, self._texts = value
        elif dtype == "bf16":  # value: (name, sizes, bytes)
            self.shape, self._array = value[1], value[2].view("<u2")
        else:
            self.shape, self._array = list(value.shape), value.astype(kind, copy=False)

    def data(self) -> list[Any]:
        """Returns the elements as a flat list, for JSON."""
        if self.dtype == "string":
            try:
                return [text.decode() for text in self._texts]
            except UnicodeDecodeError:
                raise Refused(422, f"'{self.name}' has texts that are no UTF-8: ask for binary data") from None
        array = self.array()
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Refused(422, f"'{self.name}' has infinities or NaN, which JSON cannot say: ask for binary data")
        return array.reshape(-1).tolist()

    def array(self) -> np.ndarray:
        """Returns the elements as a numpy array; bf16 becomes f32."""
        if self.dtype == "string":
            return np.array([text.decode("utf-8", "surrogateescape") for text in self._texts], object).reshape(self.shape)
        if self.dtype == "bf16":
            return (self._array.astype(np.uint32) << 16).view(np.float32).reshape(self.shape)
        return self._array

    def bytes(self) -> bytes:
        if self.dtype == "string":
            return b"".join(struct.pack("<I", len(text)) + text for text in self._texts)
        return self._array.tobytes()
