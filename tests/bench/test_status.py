# SPDX-License-Identifier: Apache-2.0
"""tools/status.py shows only figures from rows that name a commit of the history."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests"), str(ROOT / "bench")]
import log_counts
import places
import status

HEAD = status.git("rev-parse", "HEAD").stdout.strip()
ROW = {"what": "tests", "of": {"piece": "lint"}, "values": {"exit_code": 0}, "command": "./x lint", "date": "2026-01-02",
       "machine": "a processor", "commit": HEAD}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "RESULTS", tmp_path)
    return lambda *rows: (tmp_path / "counts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_row_of_the_history_is_read(results):
    results(ROW)
    assert [row["values"] for row in status.read()] == [{"exit_code": 0}]


@pytest.mark.skipif(status.git("rev-parse", "--is-shallow-repository").stdout.strip() != "false", reason="no whole history here")
@pytest.mark.parametrize("commit", ["0123456789ab", HEAD[:12] + "+", ""])
def test_a_row_of_another_tree_is_refused(results, commit):
    results(ROW | {"commit": commit})
    with pytest.raises(SystemExit, match="not in the history"):
        status.read()


def test_a_row_without_its_command_is_refused(results):
    results({key: value for key, value in ROW.items() if key != "command"})
    with pytest.raises(SystemExit, match="lacks .'command'"):
        status.read()


@pytest.mark.parametrize("text, numbers", [
    ("about 12 % faster", ["12"]),
    ("<!-- figures: counts -->12 of 13<!-- end --> on x86-64 with f16", []),
    ("`--batch 32` and a 3x3 convolution of resnet50", []),
])
def test_numbers_of_status_pages_stand_between_marks(tmp_path, text, numbers):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert status.loose_numbers(page) == numbers


@pytest.mark.parametrize("line, counts", [
    ("2 failed, 1735 passed, 3 skipped in 4033.20s", {"failed": 2, "passed": 1735, "skipped": 3}),
    ("90% tests passed, 1 tests failed out of 10", {"passed": 9, "failed": 1}),
    ("budgets are kept", {}),
])
def test_counts_are_read_from_what_runners_print(line, counts):
    assert log_counts.counts(line) == counts


def test_counts_of_one_thing_are_added_up(tmp_path, monkeypatch):
    monkeypatch.setenv("RESULTS_FILE", str(tmp_path / "counts"))
    for wrong in (0, 2):
        places.keep_count("damaged models", {"build": "asan"}, files=500, wrong=wrong)
    assert log_counts.counted() == [{"what": "damaged models", "of": {"build": "asan"}, "values": {"files": 1000, "wrong": 2}}]
    assert log_counts.counted() == []
