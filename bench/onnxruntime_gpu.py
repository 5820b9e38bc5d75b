# SPDX-License-Identifier: Apache-2.0
"""Times stock onnxruntime with Weft as its provider, and Weft alone, on a GPU; the two alternate. Measures the wall
time of a call with inputs and outputs left on the device (IO binding; `on_device`), and of a call of onnxruntime with
inputs and outputs in host memory.

  PYTHONPATH=build/release/python python bench/onnxruntime_gpu.py [--models resnet50,bert_base] [--precisions f32,f16] [--out results.jsonl]

Needs onnxruntime 1.25 or newer, torch (for device memory) and a CUDA GPU; WEFT_LIBRARY names libweft.so.
"""

import argparse
import ctypes
import statistics
import sys
import time
from ctypes import c_double, c_int32, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_ep_weft
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
import fill
import machine
from gpu import distance, expected
from weft_library import DTYPES, Program

NVIDIA = 0x10DE
PLACE = ("gpu", 0, NVIDIA)


class Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class RunOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("outputs", ctypes.POINTER(Buffer)), ("output_count", c_size_t),
        ("deadline_seconds", c_double), ("allocate", c_void_p), ("allocate_user", c_void_p), ("stop", c_void_p),
        ("stop_user", c_void_p), ("executor", c_void_p), ("on_device", c_int32), ("stream", c_void_p),
    ]


class Alone:
    """A program that runs on device memory, as an application would use it."""

    def __init__(self, path, precision, feeds, results):
        self.program = Program(path, 0, precision, {}, "gpu")
        arrays = [np.ascontiguousarray(feeds[name]) for name in self.program.input_names]
        self.memory = [torch.from_numpy(a).cuda() for a in [*arrays, *map(np.ascontiguousarray, results)]]
        inputs = [self.tensor(a, t) for a, t in zip(arrays, self.memory)]
        buffers = [Buffer(t.data_ptr(), t.nbytes) for t in self.memory[len(arrays) :]]
        self.inputs, self.count = (c_void_p * len(inputs))(*inputs), len(inputs)
        self.results = (c_void_p * len(buffers))()
        self.options = RunOptions(
            struct_size=ctypes.sizeof(RunOptions), outputs=(Buffer * len(buffers))(*buffers), output_count=len(buffers),
            on_device=1,
        )

    def tensor(self, array, memory):
        dims, tensor = (ctypes.c_int64 * array.ndim)(*array.shape), c_void_p()
        self.program.call(
            "tensor_wrap", c_int32(DTYPES[array.dtype]), dims, c_size_t(array.ndim), c_void_p(memory.data_ptr()),
            c_size_t(array.nbytes), None, None, ctypes.byref(tensor),
        )
        return tensor

    def run(self):
        program = self.program
        program.call("run", program.context, self.inputs, c_size_t(self.count), self.results, c_size_t(len(self.results)),
                     ctypes.byref(self.options))
        for result in self.results:
            program.library.weft_tensor_free(c_void_p(result))


def session_of(path, precision):
    options = {"migraphx_fp16_enable": "1"} if precision == "f16" else {}
    return onnxruntime.InferenceSession(str(path), providers=[(onnxruntime_ep_weft.get_ep_name(), options)])


def bound(session, feeds, results):
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *PLACE))
    outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(array), *PLACE) for array in results]
    for port, value in zip(session.get_outputs(), outputs):
        binding.bind_ortvalue_output(port.name, value)
    return binding, outputs


def microseconds(run, seconds=0.3):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def one_case(model, precision, rounds):
    path, feeds = fill.cached(model), fill.feeds(model, fill.cases(model)[0])
    results = expected(path, feeds)
    session = session_of(path, precision)
    binding, outputs = bound(session, feeds, results)
    alone = Alone(path, precision, feeds, results)
    ways = [lambda: session.run_with_iobinding(binding), alone.run, lambda: session.run(None, feeds)]
    for way in ways:
        microseconds(way, 0.1)
    turns = [[microseconds(way) for way in ways] for _ in range(rounds)]
    inside, outside, host = (statistics.median(column) for column in zip(*turns))
    ratio = statistics.median(a / b for a, b, _ in turns)
    error = max(distance(y.numpy(), r) for y, r in zip(outputs, results, strict=True))
    values = {"bound_us": inside, "from_host_us": host, "error": error}
    return machine.result("inside onnxruntime on a GPU", {"model": model, "sizes": fill.cases(model)[0], "precision": precision},
                          values, {"weft alone": {"us": outside, "ratio": ratio}}, machine=machine.gpu())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(fill.names()))
    parser.add_argument("--precisions", default="f32,f16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    onnxruntime_ep_weft.register()
    for model in arguments.models.split(","):
        for precision in arguments.precisions.split(","):
            machine.tell(one_case(model, precision, arguments.rounds), arguments.out)


if __name__ == "__main__":
    main()
