# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: the build under test, how many cases to run, and the seed."""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from places import BUILD, ROOT  # noqa: E402

FULL = os.environ.get("WEFT_TEST_FULL") == "1"  # ./x test --release
# A new one each day, so that short counts see other cases from day to day; printed by every test that draws from it.
SEED = int(os.environ.get("WEFT_TEST_SEED", time.time() // 86400))
