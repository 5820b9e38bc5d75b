# SPDX-License-Identifier: Apache-2.0
"""Puts the build and the shared test modules on the import path."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import places  # noqa: F401
