# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases. Computing their answers takes ten seconds, so a test run computes them once and keeps them in
a file beside the build, named after onnx's version."""
import fcntl
import os
import pickle
import warnings
from pathlib import Path

import onnx


def node_cases():
    """Returns the cases in onnx's order; the caller may change them."""
    folder = Path(os.environ.get("WEFT_BUILD", Path(__file__).resolve().parents[1] / "build/release"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"onnx_node_cases_{onnx.__version__}.pickle"
    with open(path.with_suffix(".lock"), "w") as lock:  # tests run in parallel
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_bytes(pickle.dumps(collected()))
            part.rename(path)
    return pickle.loads(path.read_bytes())


def collected():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)
