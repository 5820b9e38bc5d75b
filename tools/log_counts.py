#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""log_counts.py NAME CODE SECONDS LAST COMMAND: records the outcome of one piece of `./x test --release`, and the
counts of its tests, as rows of bench/results/counts.jsonl.

LAST is the line of the piece's output that counts the passed tests. Tests write further counts to the file that the
variable RESULTS_FILE names (`keep_count` of tests/places.py). A row replaces the earlier row of the same piece.
Nothing is recorded for a tree with local changes, because its figures would name a commit that does not contain them.
"""
import collections
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import machine

FILE = ROOT / "bench/results/counts.jsonl"


def counts(line):
    """Returns the counts in a line of pytest, ctest or doctest: {"passed": 1735, "skipped": 3}."""
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", line)}
    of_ctest = re.search(r"(\d+) tests failed out of (\d+)", line)
    if of_ctest:
        failed, total = map(int, of_ctest.groups())
        found = {"passed": total - failed, "failed": failed}
    return found


def counted():
    """Returns the counts that the tests of the piece wrote, and removes the file. Sums the counts of one thing over all
    tests."""
    path, found = pathlib.Path(os.environ.get("RESULTS_FILE", "")), {}
    if not path.is_file():
        return []
    for row in map(json.loads, path.read_text().splitlines()):
        sums = found.setdefault((row["what"], json.dumps(row["of"])), row | {"values": collections.Counter()})
        sums["values"].update(row["values"])
    path.unlink()
    return [row | {"values": dict(row["values"])} for row in found.values()]


def main():
    name, code, seconds, last, command = sys.argv[1:]
    new = [machine.result("tests", {"piece": name}, {"exit_code": int(code), **counts(last), "seconds": int(seconds)}, command=command)]
    new += [machine.result(row["what"], row["of"], row["values"], command=command) for row in counted()]
    if new[0]["commit"].endswith("+"):
        return print("the tree differs from its commit: how it ended is not kept")
    rows = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
    kept = {(row["what"], json.dumps(row["of"])): row for row in [*rows, *new]}
    FILE.write_text("".join(json.dumps(row) + "\n" for row in kept.values()))


if __name__ == "__main__":
    main()
