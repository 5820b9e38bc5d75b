#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""log_counts.py PIECES: writes how the pieces of `./x test --release` ended into the table of docs/status.md that is theirs.

PIECES has a line for each: name, exit code, seconds and the last line that it printed, with tabs between.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/status.md"
BEGIN, END = "<!-- full counts: written by ./x test --release -->", "<!-- end of full counts -->"


def row(line):
    name, code, seconds, last = line.split("\t")
    return f"| {name} | {'pass' if code == '0' else f'exit code {code}'} | {seconds} | {last.strip().strip('= ').replace('|', ' ')} |"


def main():
    rows = [row(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always"], capture_output=True, text=True).stdout.strip()
    table = [f"On {commit}:", "", "| piece | result | seconds | its last line |", "|---|---|---|---|", *rows]
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, "", *table, "", END + rest.split(END)[1]]))


if __name__ == "__main__":
    main()
