#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the sample kernels of shared objects for this processor against numpy: run_cpu.py samples.so ...

Every kernel runs twice, as one range of tasks and as several: the results must have the same bits.
"""
import ctypes
import sys

import numpy as np

import cases
import checks


class LaunchArgs(ctypes.Structure):
    _fields_ = [("buffers", ctypes.c_void_p), ("sizes", ctypes.c_void_p), ("scratch", ctypes.c_void_p),
                ("scratch_bytes", ctypes.c_int64), ("buffer_bytes", ctypes.c_void_p), ("fault", ctypes.c_void_p),
                ("stamps", ctypes.c_void_p), ("earlier", ctypes.c_uint32), ("stamp", ctypes.c_uint32)]


class Cpu:
    def __init__(self, paths):
        self.libraries = [ctypes.CDLL(p) for p in paths]

    def kernel(self, name):
        for library in self.libraries:
            if hasattr(library, name):
                return getattr(library, name)
        raise RuntimeError("no such kernel in the objects given")

    def once(self, case, ranges):
        outputs = [np.full(shape, -1, dtype) for shape, dtype in case.outputs]
        buffers = [np.ascontiguousarray(a) for a in case.inputs] + outputs
        pointers = np.array([b.ctypes.data for b in buffers], np.uint64)
        sizes, nbytes = np.array(case.sizes, np.int64), np.array([b.nbytes for b in buffers], np.int64)
        scratch, fault = np.empty(case.scratch + 64, np.uint8), np.zeros(4, np.int64)
        start = (scratch.ctypes.data + 63) // 64 * 64
        stamps = np.zeros(len(buffers), np.uint64)  # zeros: no buffer has a stamp
        args = LaunchArgs(pointers.ctypes.data, sizes.ctypes.data, start, case.scratch, nbytes.ctypes.data, fault.ctypes.data,
                          stamps.ctypes.data, 0, 1)
        entry = self.kernel(case.kernel)
        for begin, end in ranges:
            entry(ctypes.byref(args), ctypes.c_int64(begin), ctypes.c_int64(end))
        checks.raise_fault(fault)
        return outputs

    def run(self, case):
        whole = self.once(case, [(0, case.tasks)])
        parts = self.once(case, [(2, case.tasks), (0, 1), (1, 2)])
        for a, b in zip(whole, parts):
            if a.tobytes() != b.tobytes():
                raise RuntimeError("the result depends on how the tasks are split")
        return whole


if __name__ == "__main__":
    sys.exit(checks.check(Cpu(sys.argv[1:]), cases.all_cases()) != 0)
