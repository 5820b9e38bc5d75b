# SPDX-License-Identifier: Apache-2.0
"""The paths of the tree and of the build that WEFT_BUILD names (build/release otherwise). Importing this module makes
the packages importable."""
import contextlib
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release"))
IS_FULL = bool(os.environ.get("WEFT_TEST_FULL"))  # ./x test --release
# Decides which tests a plain run takes. Processes that this one starts see the same day, even after midnight.
DAY = int(os.environ.setdefault("WEFT_TEST_SEED", str(int(time.time() // 86400))))
DIGITS = ROOT / "examples" / "digits"
sys.path.insert(0, str(BUILD / "python"))


def todays(cases, share):
    """Returns one case in `share`, different ones each day; all cases if IS_FULL. A test with the mark `rotates(n)`
    must choose by DAY // n instead, because it does not run every day."""
    return cases if IS_FULL else cases[DAY % share :: share]


def keep_count(what, of, **values):
    """Records a test's counts for bench/results/counts.jsonl, if `./x test --release` or `./x count` runs the test."""
    if file := os.environ.get("RESULTS_FILE"):
        with open(file, "a") as out:
            out.write(json.dumps({"what": what, "of": of, "values": values}) + "\n")


@contextlib.contextmanager
def judged(what, **of):
    """Opens a context that counts its block as right, or as wrong if the block raises."""
    right = False
    try:
        yield
        right = True
    finally:
        keep_count(what, of, right=int(right), wrong=int(not right))
