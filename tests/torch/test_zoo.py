# SPDX-License-Identifier: Apache-2.0
"""Models of the zoo. A plain run takes four small models, each on every second day, without torch.compile.
WEFT_TEST_FULL=1 or zoo.py run all models."""

import sys
from pathlib import Path

import pytest
import zoo
import zoo_archives

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robustness"))
from limits import IS_FULL

SLICE = ["timm/mobilenetv3", "transformers/fnet", "transformers/swin", "transformers/whisper"]


@pytest.mark.long
@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", zoo.names() if IS_FULL else SLICE)
def test_models_are_right(name):
    row = zoo.checked(name, with_compile=IS_FULL)
    assert row["archive"] == row["command"] == "right", row
    assert not IS_FULL or row["compile"].startswith("right"), row


def test_archives_are_judged_without_torch(tmp_path):
    row = zoo_archives.judge(zoo_archives.write("transformers/fnet", tmp_path), "cpu")
    assert row["apart"] <= zoo_archives.MOST_APART and row["bits"], row
