# SPDX-License-Identifier: Apache-2.0
import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]
from places import BUILD

sys.path.insert(0, str(BUILD / "python"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BUILD / "python"), os.environ.get("PYTHONPATH")]))


@pytest.fixture(autouse=True)
def one_thread():
    """Limits torch to one thread, because tests run in parallel."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
