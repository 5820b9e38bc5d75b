# SPDX-License-Identifier: Apache-2.0
"""Where the tree and the build lie that WEFT_BUILD names (build/release otherwise); importing it finds the packages."""
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release"))
DIGITS = ROOT / "examples" / "digits"
sys.path.insert(0, str(BUILD / "python"))
