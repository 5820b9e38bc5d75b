# SPDX-License-Identifier: Apache-2.0
"""The marks `rotates` and `long` of tests/days.py: no test is lost, and each worker begins with long
tests."""

import os
import subprocess
import sys
from types import SimpleNamespace

from days import long_first
from places import ROOT

FILE = """
import pytest

@pytest.fixture(params=["f32", "bf16", "f16"])
def precision(request):
    return request.param

@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip, units", [("a", 1), ("b", 1), ("c", 2)])
def test_square(chip, units, precision):
    pass

@pytest.mark.rotates(3)
def test_without_parameters():
    pass

def test_always():
    pass
"""


def taken(folder, day, full=""):
    """Returns the names of the tests that a run takes on a day; `full` is the value of WEFT_TEST_FULL."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "WEFT_TEST"))}
    environment |= {"PYTHONPATH": str(ROOT / "tests"), "WEFT_TEST_SEED": str(day)} | ({"WEFT_TEST_FULL": full} if full else {})
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "days", "-p", "no:cacheprovider", "--rootdir", folder, folder]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}


def test_all_tests_are_taken_in_three_days(tmp_path):
    (tmp_path / "test_some.py").write_text(FILE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = rotates\n")
    every, days = taken(tmp_path, 7, full="1"), [taken(tmp_path, day) for day in (7, 8, 9)]
    assert len(every) == 11 and set.union(*days) == every
    assert sum(map(len, days)) == len(every) + 2  # test_always runs on each of the three days, all other tests on one
    for day in days:
        squares = [name.partition("[")[2].rstrip("]").split("-") for name in day if name.startswith("test_square")]
        assert [{words[i] for words in squares} for i in (0, 1)] == [{"f32", "bf16", "f16"}, {"a", "b", "c"}]


def test_each_worker_begins_with_long_tests():
    items = [SimpleNamespace(number=i, get_closest_marker=lambda name, i=i: name == "long" and i in (3, 6, 9)) for i in range(10)]
    order = [item.number for item in long_first(items, 2)]
    assert sorted(order) == list(range(10)) and order[:2] == [3, 9] and order[5] == 6
