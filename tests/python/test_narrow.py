# SPDX-License-Identifier: Apache-2.0
"""Element types that numpy lacks, as arrays of ml_dtypes and through DLPack."""
import ctypes
import sys

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import weft

#: Weft's name, ONNX's number, the type of ml_dtypes, its code in DLPack, the bits of an element.
TYPES = [
    ("bf16", TensorProto.BFLOAT16, ml_dtypes.bfloat16, 4, 16),
    ("f8e4m3fn", TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, 10, 8),
    ("f8e4m3fnuz", TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz, 11, 8),
    ("f8e5m2", TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2, 12, 8),
    ("f8e5m2fnuz", TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz, 13, 8),
    ("f8e8m0", TensorProto.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu, 14, 8),
    ("f4e2m1", TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn, 17, 4),
    ("i4", TensorProto.INT4, ml_dtypes.int4, 0, 4),
    ("u4", TensorProto.UINT4, ml_dtypes.uint4, 1, 4),
    ("i2", TensorProto.INT2, ml_dtypes.int2, 0, 2),
    ("u2", TensorProto.UINT2, ml_dtypes.uint2, 1, 2),
]
EACH = pytest.mark.parametrize("dtype, number, kind, code, bits", TYPES, ids=[row[0] for row in TYPES])
COUNT = 13  # odd, so that the last element below 8 bits ends within a byte


def numbers(dtype):
    """Returns COUNT numbers that the type represents exactly."""
    if dtype == "f8e8m0":
        return 2.0 ** (np.arange(COUNT) - 6)
    low, high = {"i4": (-8, 7), "u4": (0, 15), "i2": (-2, 1), "u2": (0, 3), "f4e2m1": (-4, 4)}.get(dtype, (-6, 6))
    return (low + np.arange(COUNT) % (high - low + 1)).astype(np.float32)


def compiled(start, end, device="cpu"):
    """Returns a model of y = x converted to another type."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=end)], "g",
        [helper.make_tensor_value_info("x", start, ["n"])], [helper.make_tensor_value_info("y", end, ["n"])])
    return weft.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]).SerializeToString(), device=device)


@pytest.mark.parametrize("device", ["cpu", "ref"])
@EACH
def test_arrays_go_in_and_come_out(dtype, number, kind, code, bits, device):
    wanted = numbers(dtype).astype(kind)
    back = compiled(TensorProto.FLOAT, number, device)(numbers(dtype).astype(np.float32))
    assert back.dtype == wanted.dtype and np.array_equal(back.astype(np.float32), wanted.astype(np.float32))
    assert back.flags.writeable
    there = compiled(number, TensorProto.FLOAT, device)
    assert there.inputs[0].dtype == dtype
    assert np.array_equal(there(wanted), wanted.astype(np.float32))
    assert np.array_equal(there(wanted[::2]), wanted.astype(np.float32)[::2])  # a strided, non-contiguous view
    assert there(wanted[:0]).shape == (0,)
    assert np.array_equal(there([1, 2] if dtype != "i2" else [1, 0]), [1, 2] if dtype != "i2" else [1, 0])


@EACH
def test_another_type_is_refused(dtype, number, kind, code, bits):
    model = compiled(number, TensorProto.FLOAT)
    for wrong in np.float32, np.uint8, np.uint16, ml_dtypes.float8_e4m3b11fnuz:
        with pytest.raises(weft.UsageError, match="E310"):
            model(np.ones(COUNT, wrong))


class DlpackTensor:
    """The capsule that a framework hands over: a DLManagedTensor around bytes, laid out as DLPack specifies."""

    def __init__(self, data, code, bits, lanes, shape):
        self.data, self.type, self.shape = data, (code, bits, lanes), shape

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        class Managed(ctypes.Structure):
            _fields_ = [
                ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

        self.sizes = (ctypes.c_int64 * len(self.shape))(*self.shape)
        self.managed = Managed(self.data.ctypes.data, (ctypes.c_int32 * 2)(1, 0), len(self.shape), *self.type,
                               ctypes.addressof(self.sizes), None, 0, None, None)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


@EACH
def test_dlpack(dtype, number, kind, code, bits):
    model = compiled(number, TensorProto.FLOAT)
    wanted = numbers(dtype).astype(kind)
    if bits >= 8:
        data = wanted.view(np.uint8)
    else:
        each = wanted.view(np.uint8) & ((1 << bits) - 1)
        data = np.array([sum(int(e) << (bits * i) for i, e in enumerate(each[k:k + 8 // bits])) for k in range(0, COUNT, 8 // bits)],
                        np.uint8)
    assert np.array_equal(model(DlpackTensor(data, code, bits, 1, [COUNT])), wanted.astype(np.float32))
    if bits < 8:  # an element of DLPack may also be a byte of several lanes, as in torch.float4_e2m1fn_x2
        lanes = 8 // bits
        even = COUNT // lanes * lanes
        assert np.array_equal(model(DlpackTensor(data, code, bits, lanes, [COUNT // lanes])), wanted[:even].astype(np.float32))


def test_results_in_arrays_of_the_callers():
    model = compiled(TensorProto.FLOAT, TensorProto.BFLOAT16)
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, ml_dtypes.bfloat16)
    assert np.shares_memory(model(x, out=y), y) and np.array_equal(y.astype(np.float32), x)
    for wrong in np.zeros(4, np.uint16), np.zeros(4, np.float16), np.zeros(4, ml_dtypes.float8_e5m2):
        with pytest.raises(weft.UsageError, match="E310"):
            model(x, out=wrong)
    with pytest.raises(weft.UsageError, match="E310"):
        compiled(TensorProto.FLOAT, TensorProto.INT4)(x, out=np.zeros(4, ml_dtypes.int4))


def test_constants_of_a_graph():
    graph = weft.Graph("g")
    graph.output("y", graph.append("convert {to=f32}", graph.constant(np.array([-8, 7, 3], ml_dtypes.int4))))
    assert graph.compile(device="cpu")().tolist() == [-8, 7, 3]


def test_without_ml_dtypes(monkeypatch):
    model = compiled(TensorProto.FLOAT, TensorProto.BFLOAT16)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(weft.UnsupportedError, match="ml_dtypes"):
        model(np.zeros(2, np.float32))


@pytest.mark.parametrize("size", [(64, 48), (37, 131), (3, 40, 33)])
@EACH
def test_axes_that_change_places(dtype, number, kind, code, bits, size):
    """Checks the copy that exchanges the last two axes; it transposes square blocks in registers."""
    if bits < 8:
        size = size[:-1] + (size[-1] // 4 * 4,)  # whole bytes, of up to four elements
    axes = [*range(len(size) - 2), len(size) - 1, len(size) - 2]
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], perm=axes)], "g", [helper.make_tensor_value_info("x", number, size)],
                              [helper.make_tensor_value_info("y", number, None)])
    model = weft.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]).SerializeToString(), device="cpu")
    x = np.resize(numbers(dtype), size).astype(kind)
    np.testing.assert_array_equal(model(x).astype(np.float32), x.transpose(axes).astype(np.float32))
