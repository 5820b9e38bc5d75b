# SPDX-License-Identifier: Apache-2.0
"""python -m onnxruntime_ep_weft SCRIPT ARGS: runs an unchanged script that uses "MIGraphXExecutionProvider"."""
import runpy
import sys

from . import classic  # noqa: F401

if len(sys.argv) < 2:
    sys.exit(__doc__)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
