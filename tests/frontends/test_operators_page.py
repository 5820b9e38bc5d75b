# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md is what tools/operators.py would write."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("WEFT_BIN", ROOT / "build/release/bin"))


def test_page_is_current():
    command = [sys.executable, ROOT / "tools/operators.py", "--check", "--weft", BIN / "weft"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
