# SPDX-License-Identifier: Apache-2.0
"""Runs a command of Weft on emulated AMD GPUs: Weft's HIP code runs unchanged on libamdemu, which WEFT_HIP_LIBRARY
names."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release"))
LIBRARY = BUILD / "lib/libamdemu.so"
CHIPS = ["gfx1100", "gfx942", "gfx1201"]  # gfx1100, gfx1201: waves of 32, two kinds of WMMA; gfx942: waves of 64, MFMA


def run(chips, program, *arguments, **options):
    """Runs a program of the build, or any program by its whole path; returns the finished process. `options` are
    AMDEMU_ variables, in lower case and without the prefix."""
    extra = {f"AMDEMU_{name.upper()}": str(value) for name, value in options.items()}
    of_build = {"WEFT_HIP_LIBRARY": str(LIBRARY), "PYTHONPATH": str(BUILD / "python"), "AMDEMU_CHIPS": chips}
    environment = os.environ | of_build | extra
    command = [str(BUILD / "bin" / program), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def counted(chips, folder, program, *arguments):
    """Runs a command like `run`; also returns for each kernel its code object's metadata and its counters
    (tests/amdemu/counters.def)."""
    report = pathlib.Path(folder) / "report.jsonl"
    done = run(chips, program, *arguments, report=report)
    return done, [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []


def total(kernels, name):
    return sum(kernel[name] for kernel in kernels)
