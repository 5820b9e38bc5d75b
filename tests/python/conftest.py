# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the package and the command of the build that WEFT_BUILD names (build/release otherwise)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from places import BUILD, ROOT

# An interpreter that a test starts finds the package too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BUILD / "python"), os.environ.get("PYTHONPATH")]))


@pytest.fixture
def weft_command(tmp_path):
    """Runs `weft WORDS` in the root of the tree; returns the finished process with its output as text."""

    def run(*words, env=None, cwd=ROOT):
        environment = {**os.environ, "NO_COLOR": "1", **(env or {})}
        words = [str(word) for word in words]
        return subprocess.run([BUILD / "bin" / "weft", *words], capture_output=True, text=True, cwd=cwd, env=environment)

    return run
