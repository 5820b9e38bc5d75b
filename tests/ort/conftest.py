# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from places import BUILD

LIBRARY = BUILD / "lib/libweft-onnxruntime.so"

# Without onnxruntime's headers the build omits the provider; with the headers, a missing library is a failure.
collect_ignore_glob = [] if LIBRARY.exists() or (BUILD / "onnxruntime/usr").exists() else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def provider():
    import onnxruntime_ep_weft

    onnxruntime_ep_weft.register()
    return onnxruntime_ep_weft
