# SPDX-License-Identifier: Apache-2.0
"""Weft through its C interface (`include/weft/weft.h`), by ctypes and numpy alone."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
DTYPES = {
    np.dtype(name): number
    for name, number in {
        "bool": 0, "uint8": 3, "uint16": 4, "uint32": 5, "uint64": 6, "int8": 9, "int16": 10, "int32": 11, "int64": 12,
        "float16": 19, "float32": 21, "float64": 22,
    }.items()
}
NUMPY = {number: dtype for dtype, number in DTYPES.items()}
PRECISIONS = {"f32": 0, "bf16": 1, "f16": 2}


class CompileOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_char_p),
        ("threads", c_int32),
        ("precision", c_int32),
        ("shapes", POINTER(c_char_p)),
        ("shape_count", c_size_t),
        ("symbols", POINTER(c_char_p)),
        ("symbol_count", c_size_t),
        ("keep_f32", POINTER(c_char_p)),
        ("keep_f32_count", c_size_t),
        ("folder", c_char_p),
        ("dump_folder", c_char_p),
        ("no_cache", c_int32),
        ("progress", c_void_p),
        ("progress_user", c_void_p),
    ]


class Port(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("type", c_char_p),
        ("is_tensor", c_int32),
        ("dtype", c_int32),
        ("rank", c_size_t),
        ("dims", c_void_p),
        ("has_default", c_int32),
    ]


def library_path():
    """Returns the path of libweft.so: the one that WEFT_LIBRARY names, else the one of the newest build in this tree."""
    named = os.environ.get("WEFT_LIBRARY")
    found = (
        [Path(named)] if named else sorted(ROOT.glob("build/*/**/libweft.so"), key=lambda path: path.stat().st_mtime)
    )
    if not found:
        raise FileNotFoundError("libweft.so is not built (./x build), and WEFT_LIBRARY does not name it")
    return found[-1]


def open_library():
    library = ctypes.CDLL(str(library_path()))
    for name in ("weft_status_text", "weft_version"):
        getattr(library, name).restype = c_char_p
    for name in ("weft_tensor_data", "weft_tensor_dims"):
        getattr(library, name).restype = c_void_p
    for name in ("weft_input_count", "weft_output_count", "weft_tensor_rank"):
        getattr(library, name).restype = c_size_t
    library.weft_tensor_dtype.restype = c_int32
    for name in ("compile", "input", "output", "context_new", "tensor_wrap", "run"):
        getattr(library, f"weft_{name}").restype = c_void_p
    return library


class Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class RunOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("outputs", POINTER(Buffer)), ("output_count", c_size_t),
        ("deadline_seconds", c_double), ("allocate", c_void_p), ("allocate_user", c_void_p), ("stop", c_void_p),
        ("stop_user", c_void_p), ("executor", c_void_p), ("on_device", c_int32), ("stream", c_void_p),
    ]


class Program:
    """A model compiled for a device, with one context. Outputs are views of memory that the next run overwrites."""

    def __init__(self, path, threads, precision, symbols, device="cpu", shapes=None):
        self.library = open_library()
        texts = [f"{symbol}={size}".encode() for symbol, size in symbols.items()]
        shape_texts = [f"{name}={','.join(map(str, shape))}".encode() for name, shape in (shapes or {}).items()]
        options = CompileOptions(
            struct_size=ctypes.sizeof(CompileOptions),
            device=device.encode(),
            threads=threads,
            precision=PRECISIONS[precision],
            shapes=(c_char_p * len(shape_texts))(*shape_texts),
            shape_count=len(shape_texts),
            symbols=(c_char_p * len(texts))(*texts),
            symbol_count=len(texts),
        )
        self.program, self.context, self.outputs = c_void_p(), c_void_p(), []
        self.call("compile", os.fsencode(path), byref(options), byref(self.program))
        self.call("context_new", self.program, byref(self.context))
        self.input_names = self.names("input")
        self.output_names = self.names("output")

    def call(self, name, *arguments):
        status = getattr(self.library, f"weft_{name}")(*arguments)
        if status:
            raise RuntimeError(self.library.weft_status_text(c_void_p(status)).decode())

    def names(self, kind):
        port, names = Port(struct_size=ctypes.sizeof(Port)), []
        for index in range(getattr(self.library, f"weft_{kind}_count")(self.program)):
            self.call(kind, self.program, c_size_t(index), byref(port))
            names.append(port.name.decode())
        return names

    def version(self):
        return self.library.weft_version().decode()

    def wrap(self, array):
        dims, tensor = (c_int64 * array.ndim)(*array.shape), c_void_p()
        data, size = c_void_p(array.ctypes.data), c_size_t(array.nbytes)
        dtype = c_int32(DTYPES[array.dtype])
        self.call("tensor_wrap", dtype, dims, c_size_t(array.ndim), data, size, None, None, byref(tensor))
        return tensor

    def layout(self, tensor):
        """Returns the sizes and the type of a tensor."""
        rank = self.library.weft_tensor_rank(tensor)
        dims = (c_int64 * rank).from_address(self.library.weft_tensor_dims(tensor)) if rank else []
        return tuple(dims), NUMPY[self.library.weft_tensor_dtype(tensor)]

    def view(self, tensor):
        dims, dtype = self.layout(tensor)
        size = int(np.prod(dims)) * dtype.itemsize
        if size == 0:
            return np.empty(dims, dtype)
        bytes_of = (ctypes.c_uint8 * size).from_address(self.library.weft_tensor_data(tensor))
        return np.frombuffer(bytes_of, dtype).reshape(dims)

    def run(self, feeds):
        for tensor in self.outputs:
            self.library.weft_tensor_free(tensor)
        arrays = [np.asarray(feeds[name], order="C") for name in self.input_names]
        inputs = [self.wrap(array) for array in arrays]
        count = len(self.output_names)
        results = (c_void_p * count)()
        self.call(
            "run",
            self.context,
            (c_void_p * len(inputs))(*inputs),
            c_size_t(len(inputs)),
            results,
            c_size_t(count),
            None,
        )
        for tensor in inputs:
            self.library.weft_tensor_free(tensor)
        self.outputs = [c_void_p(result) for result in results]
        return {name: self.view(tensor) for name, tensor in zip(self.output_names, self.outputs)}


class OnDevice:
    """Runs a program for a GPU on device memory, which torch allocates. The outputs get twice the memory of `results`,
    arrays of their types. With `queued`, a run only queues its work on torch's current stream."""

    def __init__(self, program, feeds, results, queued=False):
        import torch

        self.program = program
        arrays = [np.asarray(feeds[name], order="C") for name in program.input_names]
        self.memory = [torch.from_numpy(a).cuda() for a in arrays]
        self.outputs = [torch.zeros(2 * r.nbytes + 1024, dtype=torch.uint8, device="cuda") for r in results]
        inputs = [self.tensor(a, t) for a, t in zip(arrays, self.memory)]
        buffers = [Buffer(t.data_ptr(), t.nbytes) for t in self.outputs]
        self.inputs, self.count = (c_void_p * len(inputs))(*inputs), len(inputs)
        self.results = (c_void_p * len(buffers))()
        self.options = RunOptions(
            struct_size=ctypes.sizeof(RunOptions), outputs=(Buffer * len(buffers))(*buffers), output_count=len(buffers),
            on_device=2 if queued else 1, stream=torch.cuda.current_stream().cuda_stream if queued else None,
        )

    def tensor(self, array, memory):
        dims, tensor = (c_int64 * array.ndim)(*array.shape), c_void_p()
        self.program.call(
            "tensor_wrap", c_int32(DTYPES[array.dtype]), dims, c_size_t(array.ndim), c_void_p(memory.data_ptr()),
            c_size_t(array.nbytes), None, None, byref(tensor),
        )
        return tensor

    def run(self, after=lambda tensor, memory: None):
        """Runs the program, and calls `after` with each output tensor and the memory that it is in."""
        program = self.program
        program.call("run", program.context, self.inputs, c_size_t(self.count), self.results, c_size_t(len(self.results)),
                     byref(self.options))
        for result, memory in zip(self.results, self.outputs):
            after(c_void_p(result), memory)
            program.library.weft_tensor_free(c_void_p(result))

    def answer(self):
        """Runs the program and returns copies of its outputs."""
        found = []

        def keep(tensor, memory):
            dims, dtype = self.program.layout(tensor)
            size = int(np.prod(dims)) * dtype.itemsize
            found.append(memory[:size].cpu().numpy().view(dtype).reshape(dims))

        self.run(keep)
        return found
