# SPDX-License-Identifier: Apache-2.0
"""docs/tour.md shows the outputs that the tools give now."""
import subprocess
import sys

import places


def test_page_is_current():
    command = [sys.executable, places.ROOT / "tools/tour.py", "--check", "--bin", places.BUILD / "bin"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
