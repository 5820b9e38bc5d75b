# SPDX-License-Identifier: Apache-2.0
"""Environments of their own for the server and its clients, build/serve and build/ray, made when a test first wants them.
Nothing of them is needed to build Weft or to use it without a server."""
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def python_of(name):
    """The Python of build/NAME, which has what NAME's list of requirements says."""
    home, wanted = ROOT / "build" / name, (HERE / f"requirements{'' if name == 'serve' else '_' + name}.txt").read_text()
    python, stamp = home / "bin/python", home / "requirements.txt"
    home.parent.mkdir(exist_ok=True)
    with open(home.with_suffix(".lock"), "w") as lock:  # tests may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            install(home, python, wanted)
            stamp.write_text(wanted)
    return python


def install(home, python, wanted):
    packages = [line for line in wanted.splitlines() if line and not line.startswith("#")]
    for command in ([sys.executable, "-m", "venv", str(home)],
                    [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q", *packages]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            continue
        if os.environ.get("WEFT_TEST_OFFLINE") == "1":
            pytest.skip(f"WEFT_TEST_OFFLINE: {home.name} is not there: {done.stderr[-300:]}")
        pytest.fail(f"{home.name} cannot be installed: {done.stderr[-600:]}\nWEFT_TEST_OFFLINE=1 leaves its tests out")


def run_cases(name, file, *words):
    """pytest over a file of cases of this folder, under that Python."""
    command = [python_of(name), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", HERE, HERE / file, *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=HERE, env=os.environ)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    print(done.stdout[-200:])
