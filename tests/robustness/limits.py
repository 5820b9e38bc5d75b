# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: the build under test, how many cases to run, and the seed."""

import os
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release"))
FULL = os.environ.get("WEFT_TEST_FULL") == "1"  # ./x test --release
# A new one each day, so that short counts see other cases from day to day; printed by every test that draws from it.
SEED = int(os.environ.get("WEFT_TEST_SEED", time.time() // 86400))
