# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that writes the first model of each test to the folder WEFT_MODELS, and then skips the test.

    WEFT_MODELS=/tmp/models PYTHONPATH=tests/mutants pytest -p microsoft_models tests/frontends/test_microsoft*.py
"""
import os
import sys
import types
from pathlib import Path

import onnxruntime
import pytest

FOLDER = Path(os.environ["WEFT_MODELS"])


def keep(model, *_, **__):
    (FOLDER / f"microsoft{len(list(FOLDER.iterdir()))}.onnx").write_bytes(model)
    pytest.skip("its model is kept")


weft = types.ModuleType("weft")
weft.compile = keep
weft.__getattr__ = lambda name: Exception
sys.modules["weft"] = weft
onnxruntime.InferenceSession = keep
