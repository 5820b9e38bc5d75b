# SPDX-License-Identifier: Apache-2.0
"""Puts the build and the shared test modules on the import path; days.py chooses and orders the tests."""
import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import places  # noqa: F401
from days import pytest_collection_modifyitems  # noqa: F401


def pytest_collection_finish():
    """Exempts all present objects from garbage collection, because modules and tests live until the end of the
    run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)
