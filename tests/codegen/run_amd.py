#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the sample kernels of AMD code objects against numpy: run_amd.py --chip gfx942 samples.co ...

The HIP library is the one that WEFT_HIP_LIBRARY names (an emulated runtime, for example), else libamdhip64.so.
"""
import argparse
import ctypes
import os
import sys

import numpy as np

import cases
import checks

pointer = ctypes.c_void_p
FLOAT8 = {"gfx942": cases.FLOAT8_FNUZ, "gfx1200": cases.FLOAT8, "gfx1201": cases.FLOAT8}


class Amd:
    def __init__(self, library, paths):
        self.hip = ctypes.CDLL(library)
        self.explain = getattr(self.hip, "amdemuLastError", None)  # the emulator also has an error text
        if self.explain:
            self.explain.restype = ctypes.c_char_p
        self.modules = [self.load(p) for p in paths]

    def call(self, name, *args):
        error = getattr(self.hip, name)(*args)
        if error:
            text = self.explain().decode() if self.explain else ""
            if self.explain:
                self.hip.amdemuReset()
            raise RuntimeError(f"{name}: HIP error {error} {text}")

    def load(self, path):
        module = pointer()
        with open(path, "rb") as file:
            self.call("hipModuleLoadData", ctypes.byref(module), file.read())
        return module

    def kernel(self, name):
        function = pointer()
        for module in self.modules:
            if self.hip.hipModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0:
                return function
        raise RuntimeError("no such kernel in the objects given")

    def upload(self, array):
        at = pointer()
        self.call("hipMalloc", ctypes.byref(at), ctypes.c_size_t(max(array.nbytes, 1)))
        if array.nbytes:
            self.call("hipMemcpy", at, pointer(array.ctypes.data), ctypes.c_size_t(array.nbytes), 1)
        return at

    def run(self, case):
        outputs = [np.full(shape, -1, dtype) for shape, dtype in case.outputs]
        arrays = [np.ascontiguousarray(a) for a in case.inputs] + outputs
        nbytes, fault = np.array([a.nbytes for a in arrays], np.int64), np.zeros(4, np.int64)
        held = [self.upload(a) for a in [*arrays, np.array(case.sizes, np.int64), nbytes, fault]]
        block = np.array([h.value for h in held], np.uint64)  # buffers, sizes, and the arguments of checked kernels
        params = (pointer * 1)(block.ctypes.data)
        self.call("hipModuleLaunchKernel", self.kernel(case.kernel), case.blocks, 1, 1, case.threads, 1, 1, 0, None, params,
                  None)
        self.call("hipDeviceSynchronize")
        for array, at in zip([*outputs, fault], [*held[len(case.inputs):len(arrays)], held[-1]], strict=True):
            if array.nbytes:
                self.call("hipMemcpy", pointer(array.ctypes.data), at, ctypes.c_size_t(array.nbytes), 2)
        for at in held:
            self.call("hipFree", at)
        checks.raise_fault(fault)
        return outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects", nargs="+")
    parser.add_argument("--chip", required=True)
    options = parser.parse_args()
    os.environ.setdefault("AMDEMU_CHIPS", options.chip)
    library = os.environ.get("WEFT_HIP_LIBRARY", "libamdhip64.so")
    try:
        device = Amd(library, options.objects)
    except OSError as problem:
        sys.exit(f"run_amd.py needs a HIP library (WEFT_HIP_LIBRARY): {problem}")
    sys.exit(checks.check(device, [*cases.all_cases(small=True), *cases.gemm_cases(small=True, float8=FLOAT8.get(options.chip))]) != 0)


if __name__ == "__main__":
    main()
