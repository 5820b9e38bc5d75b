# SPDX-License-Identifier: Apache-2.0
"""Where and when a figure was measured, and the one way in which figures are written down (`results/README.md`)."""

import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile")


def processor():
    """Name and vector features as the kernel reports them."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    present = fields.get("flags", "").split()
    return {
        "cpu": fields.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "features": [feature for feature in FEATURES if feature in present],
    }


def commit():
    """Short hash of the checked-out commit, with '+' after it when files differ from it; '' outside a repository."""

    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + (
        "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    )


def load():
    """Processes that wanted a core, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def tell(row, path=None):
    """Prints a row of figures as a line of JSON, and appends it to a file."""
    print(json.dumps(row), flush=True)
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")


class Record:
    """Appends figures to a file, one JSON line each. `shared` (commit, machine) goes into every line."""

    def __init__(self, path):
        self.path = Path(path) if path else None
        self.shared = {"commit": commit(), "machine": processor()}

    def add(self, figure, value, unit, **context):
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        line = {"figure": figure, "value": value, "unit": unit, **context, "time": time, "load": load(), **self.shared}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
