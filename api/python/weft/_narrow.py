# SPDX-License-Identifier: Apache-2.0
"""Element types that numpy lacks. Their arrays have the types of ml_dtypes, an optional package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _weft
from ._errors import UnsupportedError

if TYPE_CHECKING:
    import numpy

#: Maps Weft's name of a type to its name in ml_dtypes and its bits. ml_dtypes stores each element below 8 bits in a byte.
TYPES: dict[str, tuple[str, int]] = {
    "bf16": ("bfloat16", 16), "f8e4m3fn": ("float8_e4m3fn", 8), "f8e4m3fnuz": ("float8_e4m3fnuz", 8),
    "f8e5m2": ("float8_e5m2", 8), "f8e5m2fnuz": ("float8_e5m2fnuz", 8), "f8e8m0": ("float8_e8m0fnu", 8),
    "f4e2m1": ("float4_e2m1fn", 4), "i4": ("int4", 4), "u4": ("uint4", 4), "i2": ("int2", 2), "u2": ("uint2", 2),
}

_BY_NAME = {name: dtype for dtype, (name, _) in TYPES.items()}


def numpy_type(dtype: str) -> numpy.dtype[Any]:
    """Returns the type of ml_dtypes. Raises UnsupportedError if the package is missing, or too old to have the type."""
    import numpy

    name = TYPES[dtype][0]
    try:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        text = f"numpy has no type for {dtype}, and there is no ml_dtypes.{name}"
        hint = "pip install --upgrade ml_dtypes"
        raise UnsupportedError(f"error[E310]: {text}\n   hint: {hint}", "E310", hint=hint) from None


def type_of(value: Any) -> str:
    """Returns Weft's name of the type of an array of ml_dtypes; "" for any other value."""
    name = getattr(getattr(value, "dtype", None), "name", "")
    return _BY_NAME.get(name, "") if type(value).__module__.partition(".")[0] in ("numpy", "ml_dtypes") else ""


def _shifts(bits: int) -> numpy.ndarray[Any, Any]:
    import numpy

    return numpy.arange(0, 8, bits, dtype=numpy.uint8)


def bits_of(array: Any, dtype: str) -> numpy.ndarray[Any, Any]:
    """Returns the array's memory as Weft reads it: bytes or 16-bit words. Elements below 8 bits are packed, the first in the low bits."""
    import numpy

    bits = TYPES[dtype][1]
    array = numpy.asarray(array)
    if bits >= 8:
        return array.view(numpy.uint8 if bits == 8 else numpy.uint16)
    each = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8) & ((1 << bits) - 1)
    padded = numpy.zeros((-(-each.size * bits // 8), 8 // bits), numpy.uint8)
    padded.reshape(-1)[: each.size] = each
    return numpy.bitwise_or.reduce(padded << _shifts(bits), axis=1)


def tensor(array: Any, dtype: str) -> _weft.Tensor:
    """Converts the array to a tensor; a contiguous array of elements of 8 or 16 bits is not copied."""
    return _weft.tensor_of_bits(bits_of(array, dtype), dtype, list(array.shape))


def array_of(dtype: str, sizes: list[int], packed: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """Returns an array of ml_dtypes over the bytes `packed`; elements of less than 8 bits are unpacked first."""
    import numpy

    bits, wanted = TYPES[dtype][1], numpy_type(dtype)
    if bits >= 8:
        return packed.view(wanted).reshape(sizes)
    each = (packed[:, None] >> _shifts(bits)).reshape(-1)[: int(numpy.prod(sizes, dtype=numpy.int64))] & ((1 << bits) - 1)
    if dtype.startswith("f"):
        return each.view(wanted).reshape(sizes)
    sign = 1 << (bits - 1) if dtype.startswith("i") else 0
    return ((each ^ sign).astype(numpy.int8) - sign).astype(wanted).reshape(sizes)
