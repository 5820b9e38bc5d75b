#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the sample kernels of PTX modules on a Hopper GPU against numpy: run_cuda.py samples.ptx gemm.ptx groups.ptx

Uses the driver (libcuda) alone. Without a driver or a GPU it fails and says so; it never skips.
"""
import ctypes
import sys

import numpy as np

import cases
import checks

pointer = ctypes.c_void_p


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("unused", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", pointer),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Cuda:
    def __init__(self, paths):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, self.context, name = ctypes.c_int(), pointer(), ctypes.create_string_buffer(100)
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDeviceGetName", name, 100, device)
        print("device:", name.value.decode())
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.modules = [self.load(p) for p in paths]

    def call(self, name, *args):
        error = getattr(self.cuda, name)(*args)
        if error:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(error, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else error}")

    def load(self, path):
        module = pointer()
        with open(path, "rb") as file:
            self.call("cuModuleLoadData", ctypes.byref(module), file.read().rstrip(b"\0") + b"\0")
        return module

    def kernel(self, name):
        function = pointer()
        for module in self.modules:
            if self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0:
                return function
        raise RuntimeError("no such kernel in the modules given")

    def upload(self, array):
        at = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(max(array.nbytes, 1)))
        if array.nbytes:
            self.call("cuMemcpyHtoD_v2", at, pointer(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        return at

    def launch(self, case, held):
        block = np.array([h.value for h in held], np.uint64)  # buffers, sizes, and the arguments of checked kernels
        params = (pointer * 1)(block.ctypes.data)
        cluster = Attribute(4, 0, (case.cluster, 1, 1))  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        config = Config((case.blocks, 1, 1), (case.threads, 1, 1), case.shared, None, ctypes.pointer(cluster), case.cluster > 1)
        kernel = self.kernel(case.kernel)
        self.call("cuFuncSetAttribute", kernel, 8, case.shared)  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.call("cuLaunchKernelEx", ctypes.byref(config), kernel, params, None)

    def upload_all(self, case, arrays):
        nbytes = np.array([a.nbytes for a in arrays], np.int64)
        return [self.upload(a) for a in [*arrays, np.array(case.sizes, np.int64), nbytes, np.zeros(4, np.int64)]]

    def run(self, case):
        outputs = [np.full(shape, -1, dtype) for shape, dtype in case.outputs]
        arrays = [np.ascontiguousarray(a) for a in case.inputs] + outputs
        held, fault = self.upload_all(case, arrays), np.zeros(4, np.int64)
        self.launch(case, held)
        self.call("cuCtxSynchronize")
        for array, at in zip([*outputs, fault], [*held[len(case.inputs):len(arrays)], held[-1]], strict=True):
            if array.nbytes:
                self.call("cuMemcpyDtoH_v2", pointer(array.ctypes.data), at, ctypes.c_size_t(array.nbytes))
        for at in held:
            self.call("cuMemFree_v2", at)
        checks.raise_fault(fault)
        return outputs

    def milliseconds(self, case, repeats=20):
        """Returns the median time of one launch, by events; inputs stay as they are."""
        arrays = [np.ascontiguousarray(a) for a in case.inputs] + [np.zeros(s, d) for s, d in case.outputs]
        held = self.upload_all(case, arrays)
        start, stop, times = pointer(), pointer(), []
        self.call("cuEventCreate", ctypes.byref(start), 0)
        self.call("cuEventCreate", ctypes.byref(stop), 0)
        for _ in range(repeats + 3):
            took = ctypes.c_float()
            self.call("cuEventRecord", start, None)
            self.launch(case, held)
            self.call("cuEventRecord", stop, None)
            self.call("cuEventSynchronize", stop)
            self.call("cuEventElapsedTime", ctypes.byref(took), start, stop)
            times.append(took.value)
        for at in held:
            self.call("cuMemFree_v2", at)
        return sorted(times[3:])[repeats // 2]


def main():
    try:
        device = Cuda(sys.argv[1:])
    except OSError as problem:
        sys.exit(f"run_cuda.py needs an NVIDIA driver (libcuda.so.1): {problem}")
    except RuntimeError as problem:
        sys.exit(f"run_cuda.py: {problem}")
    failures = checks.check(device, [*cases.all_cases(), *cases.gemm_cases(float8=cases.FLOAT8), *cases.group_cases(), *cases.attention_cases()])
    for case in cases.timed_cases():
        ms = device.milliseconds(case)
        print(f"{case.kernel} {case.sizes}: {ms:.3f} ms, {case.work / ms / 1e6:.0f} {case.unit}")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
