#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""log_counts.py PIECES: writes how the pieces of `./x test --release` ended into the table of docs/status.md that is theirs.

PIECES has a line for each: name, exit code, seconds and the last line that it printed, with tabs between. Rows of other
pieces stay, so that `./x test --release --asan`, say, renews its own; each says which tree it is of.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/status.md"
BEGIN, END = "<!-- full counts: written by ./x test --release -->", "<!-- end of full counts -->"
HEAD = ["| piece | tree | result | seconds | its last line |", "|---|---|---|---|---|"]


def row(line, tree):
    name, code, seconds, last = line.split("\t")
    result = "pass" if code == "0" else f"exit code {code}"
    return f"| {name} | {tree} | {result} | {seconds} | {last.strip().strip('= ').replace('|', ' ')} |"


def name_of(row):
    return row.split("|")[1].strip()


def main():
    tree = subprocess.run(["git", "-C", str(ROOT), "describe", "--always"], capture_output=True, text=True).stdout.strip()
    before, rest = PAGE.read_text().split(BEGIN)
    table, after = rest.split(END)
    rows = {name_of(old): old for old in table.splitlines() if old.startswith("|") and old not in HEAD}
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        new = row(line, tree)
        rows[name_of(new)] = new
    PAGE.write_text("\n".join([before + BEGIN, "", *HEAD, *rows.values(), "", END + after]))


if __name__ == "__main__":
    main()
