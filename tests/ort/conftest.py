# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

import pytest

BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", pathlib.Path(__file__).parents[2] / "build/release"))
LIBRARY = BUILD / "lib/libweft-onnxruntime.so"
sys.path.insert(0, str(BUILD / "python"))

# Without onnxruntime's headers the build leaves the provider out and says so; CMake's cache tells the two apart.
collect_ignore_glob = [] if LIBRARY.exists() or (BUILD / "onnxruntime/usr").exists() else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def provider():
    import onnxruntime_ep_weft

    onnxruntime_ep_weft.register()
    return onnxruntime_ep_weft
