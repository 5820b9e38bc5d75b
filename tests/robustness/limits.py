# SPDX-License-Identifier: Apache-2.0
"""Code that the tests of this folder share: the build under test, the number of cases to run, and the seed."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from places import BUILD, DAY, IS_FULL, ROOT  # noqa: F401  for tests that import this module

# The seed changes each day, so that short runs test other cases from day to day.
SEED = DAY


def run_limited(command, folder, err, env, seconds, stack=0):
    """Runs the command without standard output; returns its exit code and the most memory that it held, in bytes
    (measured.py)."""
    note = Path(folder, "measured.txt")
    script = Path(__file__).with_name("measured.py")
    words = [sys.executable, "-I", "-S", script, note, str(seconds), str(stack), *command]
    subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=err, env=env, check=True)
    code, kibibytes = note.read_text().split()
    return int(code), int(kibibytes) << 10
