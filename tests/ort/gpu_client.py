# SPDX-License-Identifier: Apache-2.0
"""Answers the questions of test_gpu.py in a process whose GPUs are emulated: `gpu_client.py QUESTION`; prints one JSON
line."""
import ctypes
import json
import os
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

import onnxruntime_ep_weft

onnxruntime_ep_weft.register()

import models
from models import assigned, mixed, mlp, model, numbers, session

AMD = 0x1002
HIP = ctypes.CDLL(os.environ["WEFT_HIP_LIBRARY"])
X = numbers(3, 64)
RESULT = models.reference(mlp()).run(None, {"x": X})[0]
QUESTIONS = {}


def question(function):
    QUESTIONS[function.__name__] = function
    return function


def error(y, want=RESULT):
    return float(np.abs(y - want).max())


def stream():
    made = ctypes.c_void_p()
    assert HIP.hipStreamCreateWithFlags(ctypes.byref(made), 1) == 0
    return made


@question
def devices():
    return [[d.ep_name, d.ep_metadata["cuda_device_id"], d.ep_metadata["target"], d.device.type.name, d.device.vendor_id]
            for d in ort.get_ep_devices() if d.ep_name in onnxruntime_ep_weft.get_ep_names()]


@question
def host_values():
    """Runs with inputs and outputs in host memory, for several sizes."""
    made = session(mlp())
    errors = [error(made.run(None, {"x": X})[0])]
    for rows in (1, 5, 3, 0):
        x = numbers(rows, 64, seed=rows)
        want = models.reference(mlp()).run(None, {"x": x})[0]
        got = made.run(None, {"x": x})[0]
        assert got.shape == want.shape
        errors.append(error(got, want) if rows else 0.0)
    return {"errors": errors, "assigned": assigned(made)}


@question
def mixed_providers():
    made, theirs = session(mixed()), models.reference(mixed())
    got, want = made.run(None, {"x": X}), theirs.run(None, {"x": X})
    return {"assigned": assigned(made), "errors": [error(got[0], want[0]), error(np.stack(got[1]), np.stack(want[1]))]}


def on_device(array, number=0):
    return ort.OrtValue.ortvalue_from_numpy(array, "gpu", number, AMD)


def bound(made, x, y):
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    return binding


@question
def bound_values():
    """Runs several times with inputs and outputs in device memory."""
    made = session(mlp())
    x, y = on_device(X), on_device(np.zeros((3, 8), np.float32))
    binding = bound(made, x, y)
    errors = []
    for factor in (1, 2, 3):
        x.update_inplace(X * factor)
        made.run_with_iobinding(binding)
        errors.append(error(y.numpy(), models.reference(mlp()).run(None, {"x": X * factor})[0]))
    return {"errors": errors, "device": y.device_name(), "x": error(x.numpy(), X * 3)}


@question
def one_memory():
    """Writes y = x[::-1] to the memory of x."""
    nodes = [helper.make_node("Gather", ["x", "order"], ["y"], axis=0)]
    proto = model(nodes, [("x", TensorProto.FLOAT, [64])], [("y", TensorProto.FLOAT, [64])], [("order", np.arange(63, -1, -1))])
    made, x = session(proto), numbers(64)
    value = on_device(x)
    made.run_with_iobinding(bound(made, value, value))
    return {"error": error(value.numpy(), x[::-1])}


@question
def static_inputs():
    """Runs with axes that are known only in the run, in host memory and in device memory."""
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"])]
    proto = model(nodes, [("x", TensorProto.FLOAT, [3, 64]), ("axes", TensorProto.INT64, [1])], [("y", TensorProto.FLOAT, None)])
    errors, made = [], session(proto)
    for axis in (1, 0, 1):
        want = X.sum(axis, keepdims=True)
        errors.append(error(made.run(None, {"x": X, "axes": np.array([axis])})[0], want))
        y = on_device(np.zeros_like(want))
        binding = bound(made, on_device(X), y)
        binding.bind_ortvalue_input("axes", on_device(np.array([axis])))
        made.run_with_iobinding(binding)
        errors.append(error(y.numpy(), want))
    return {"errors": errors, "assigned": assigned(made)}


@question
def device_ids():
    wrong = ""
    try:
        session(mlp(), {"device_id": "9"})
    except Exception as refused:
        wrong = str(refused)
    made = session(mlp(), {"device_id": "1"})
    y = on_device(np.zeros((3, 8), np.float32), 1)
    made.run_with_iobinding(bound(made, on_device(X, 1), y))
    return {"error": error(y.numpy()), "wrong": wrong}


@question
def user_stream():
    """Queues a run on the user's stream; its results are ready once the program has waited for this stream."""
    own = stream()
    made = session(mlp(), {"user_compute_stream": str(own.value)})
    plain = error(made.run(None, {"x": X})[0])
    y = on_device(np.zeros((3, 8), np.float32))
    settings = ort.RunOptions()
    settings.add_run_config_entry("disable_synchronize_execution_providers", "1")
    made.run_with_iobinding(bound(made, on_device(X), y), settings)
    before = y.numpy()
    HIP.hipStreamSynchronize(own)
    refused = ""
    try:
        session(mlp(), {"user_compute_stream": str(own.value), "gpu_external_alloc": "4096", "gpu_external_free": "4096"})
    except Exception as problem:
        refused = str(problem)
    default = error(session(mlp(), {"user_compute_stream": "0"}).run(None, {"x": X})[0])
    return {"plain": plain, "untouched": not before.any(), "error": error(y.numpy()), "refused": refused, "default": default}


class Allocator:
    """An allocator like a framework's, given by the addresses of its functions; counts calls and records sizes."""

    def __init__(self):
        self.sizes, self.live, self.emptied = [], set(), 0
        HIP.hipMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        HIP.hipFree.argtypes = [ctypes.c_void_p]

        def allocate(size):
            made = ctypes.c_void_p()
            assert HIP.hipMalloc(ctypes.byref(made), size) == 0
            self.sizes.append(size)
            self.live.add(made.value)
            return made.value

        def release(data):
            self.live.remove(data)
            HIP.hipFree(data)

        def empty():
            self.emptied += 1

        self.functions = [ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(allocate),
                          ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release), ctypes.CFUNCTYPE(None)(empty)]

    def options(self, prefix):
        addresses = [str(ctypes.cast(function, ctypes.c_void_p).value) for function in self.functions]
        return dict(zip([prefix + "alloc", prefix + "free", prefix + "empty_cache"], addresses))


@question
def external_allocator():
    own = Allocator()
    made = session(mlp(), own.options("gpu_external_"))
    found = error(made.run(None, {"x": X})[0])
    calls = len(own.sizes)
    again = error(made.run(None, {"x": X})[0])
    repeated = len(own.sizes) - calls
    del made
    return {"errors": [found, again], "calls": calls, "repeated": repeated, "live": len(own.live), "emptied": own.emptied}


@question
def arena_strategies():
    """Returns for each strategy the sizes in bytes of a run's allocations, without the 256 bytes that each has for
    alignment: input f32[100, 64], output f32[100, 8] and working memory."""
    sizes = {}
    for strategy in ("kNextPowerOfTwo", "0", "kSameAsRequested", "1"):
        own = Allocator()
        made = session(mlp(), own.options("external_") | {"arena_extend_strategy": strategy})
        before = len(own.sizes)
        made.run(None, {"x": numbers(100, 64)})
        sizes[strategy] = sorted(size - 256 for size in own.sizes[before:])
        del made
    return sizes


@question
def memory_limit():
    """Refuses a run whose input (4,000 rows, 1 MB) exceeds a limit of 64 KiB; smaller runs still work afterwards."""
    made = session(mlp(), {"gpu_mem_limit": "65536"})
    fine = error(made.run(None, {"x": X})[0])
    try:
        made.run(None, {"x": numbers(4000, 64)})
        refused = ""
    except Exception as problem:
        refused = str(problem)
    return {"fine": fine, "refused": refused, "after": error(made.run(None, {"x": X})[0])}


@question
def half_precision():
    return {name: error(session(mlp(), {name: "1"}).run(None, {"x": X})[0]) for name in ("fp16_enable", "bf16_enable")}


@question
def saved_programs():
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "p.mxr"
        session(mlp(), {"save_compiled_model": "1", "save_compiled_path": str(path)})
        loaded = session(mlp(), {"load_compiled_model": "1", "load_compiled_path": str(path)})
        return {"bytes": path.stat().st_size, "error": error(loaded.run(None, {"x": X})[0])}


@question
def notes():
    """Uses options whose meaning depends on the device; the log lists those without effect."""
    options = {"arena_extend_strategy": "1", "user_compute_stream": str(stream().value), "do_copy_in_default_stream": "0",
               "enable_hip_graph": "1", "exhaustive_tune": "1", "device": "gpu"}
    session(mlp(), options)
    return sorted(options)


@question
def an_index_out_of_range():
    nodes = [helper.make_node("Gather", ["table", "at"], ["y"])]
    proto = model(nodes, [("at", TensorProto.INT64, ["n"])], [("y", TensorProto.FLOAT, ["n", 4])], [("table", numbers(8, 4))])
    made = session(proto)
    try:
        made.run(None, {"at": np.array([1, 8])})
    except Exception as problem:
        return str(problem)
    return ""


@question
def threads():
    import threading

    made, wrong = session(mlp()), []

    def work(rows):
        x = numbers(rows, 64, seed=rows)
        want = models.reference(mlp()).run(None, {"x": x})[0]
        for _ in range(3):
            if error(made.run(None, {"x": x})[0], want) > 1e-4:
                wrong.append(rows)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in range(1, 5)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    return wrong


print(json.dumps({name: QUESTIONS[name]() for name in sys.argv[1:]}))
