# SPDX-License-Identifier: Apache-2.0
"""Records where and when a figure was measured, and writes all figures in one form (`results/README.md`)."""

import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile")
# Git pathspecs of the code. Result files and pages are left out, because they may change between two measurements of
# one tree.
CODE = (".", ":!bench/results", ":!*.md")


def processor():
    """Returns the processor's name, the number of cores that this process may use, and the vector features."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    present = fields.get("flags", "").split()
    name = fields.get("model name", platform.machine())
    features = " ".join(feature for feature in FEATURES if feature in present)
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {features}"


def gpu():
    """Returns the name and driver of the first NVIDIA GPU."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return f"{name}, driver {driver}"


def of_device(device):
    """Returns the GPU or the processor of a Weft device such as "gpu:0"."""
    return gpu() if device.startswith(("gpu", "nvidia")) and shutil.which("nvidia-smi") else processor()


def commit():
    """Returns the hash of the checked-out commit, with '+' appended if the code differs from it. If the variable
    BENCH_COMMIT is set, returns its value: a copy of the tree may lack the git history."""

    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()

    if "BENCH_COMMIT" in os.environ:
        return os.environ["BENCH_COMMIT"]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")


def load():
    """Returns the load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def rounded(value):
    """Rounds floats, also inside dicts and lists, to four significant digits; no figure here is more precise."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def words():
    """Returns the arguments of this program, without the path of its results."""
    given = iter(sys.argv[1:])
    return [word for word in given if word not in ("--out", "--results") or not next(given, True)]


def result(what, of, values, peers=None, command=None, machine=None):
    """Returns a row of a result file."""
    row = {"what": what, "of": of, "values": rounded(values)}
    if peers:
        row["peers"] = rounded(peers)
    script = os.path.relpath(sys.argv[0], ROOT)
    return row | {
        "command": command or " ".join([*(f"WEFT_CPU={level}" for level in [os.environ.get("WEFT_CPU")] if level), "python", script, *words()]),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": machine or processor(),
        "commit": commit(),
    }


def tell(row, path=None):
    """Prints a row as a line of JSON, and appends it to the file `path`, if a path is given."""
    print(json.dumps(row), flush=True)
    keep(row, path)


def keep(row, path):
    """Appends a row to the file `path`, if a path is given."""
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
