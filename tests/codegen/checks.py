# SPDX-License-Identifier: Apache-2.0
"""Runs cases (cases.py) on a device and compares the answers."""
import math

import numpy as np


def raise_fault(fault):
    """Raises the error of a checked kernel; `fault` is a KernelFault as four 64-bit words."""
    if fault[0] & 0xFFFFFFFF:
        raise RuntimeError(f"buffer {fault[0] >> 32}: {fault[2]} bytes at {fault[1]} are outside its {fault[3]} bytes")


def error_of(got, want):
    """Returns the largest difference, for floats relative to max(1, |want|); infinity if only one value is finite."""
    if got.dtype.kind == "i":
        return float(np.abs(got - want).max(initial=0))
    g, w = got.astype(np.float64), want.astype(np.float64)
    if got.dtype == np.float32:
        with np.errstate(over="ignore"):
            w = np.where(np.isinf(w.astype(np.float32)), w.astype(np.float32), w)
    same = (np.isnan(g) & np.isnan(w)) | (g == w)
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, np.abs(g - w) / np.maximum(1, np.abs(w)))
    return float(np.where(np.isnan(error), np.inf, error).max(initial=0))


def check(device, cases):
    """Runs the cases on a device, an object with `run(case) -> list of output arrays`. Prints a line per kernel;
    returns the number of failures."""
    worst, failures = {}, 0
    for case in cases:
        try:
            errors = [error_of(g, w) for g, w in zip(device.run(case), case.expected, strict=True)]
            error = max(errors)
        except RuntimeError as problem:
            print(f"{case.kernel} {case.sizes}: {problem}")
            error = math.inf
        if error > case.tolerance:
            failures += 1
            print(f"{case.kernel} {case.sizes}: error {error:.3g} above {case.tolerance:g}")
        count, top = worst.get(case.kernel, (0, 0.0))
        worst[case.kernel] = (count + 1, max(top, error))
    for kernel, (count, top) in worst.items():
        print(f"{kernel:24s} {count:3d} cases, largest error {top:.2e}")
    print(f"{failures} failures")
    return failures
