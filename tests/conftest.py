# SPDX-License-Identifier: Apache-2.0
"""Makes what was built, and what tests share, importable for every test."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import places  # noqa: E402, F401
