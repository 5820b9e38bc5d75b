# SPDX-License-Identifier: Apache-2.0
"""Separate environments for packages that only tests need (TensorFlow, servers and their clients): build/NAME, made
when a test first needs it. Building and running Weft needs none of them."""
import fcntl
import os
import subprocess
import sys
import time

import pytest

from places import ROOT


def python_of(name, requirements):
    """Returns the Python of the environment build/NAME, with the packages of the file `requirements`."""
    home, wanted = ROOT / "build" / name, requirements.read_text()
    python, stamp = home / "bin/python", home / "requirements.txt"
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.with_suffix(".lock"), "w") as lock:  # tests may run in parallel
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            install(home, requirements)
            stamp.write_text(wanted)
    return python


def fetched(command, folder=None):
    """Runs a command that downloads packages, up to three times, because a registry may not answer the first time."""
    for wait in (5, 30, 0):
        done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
        if done.returncode == 0 or os.environ.get("WEFT_TEST_OFFLINE") == "1":
            break
        time.sleep(wait)
    return done


def install(home, requirements):
    for command in ([sys.executable, "-m", "venv", str(home)],
                    [str(home / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "-q", "-r", str(requirements)]):
        done = fetched(command)
        if done.returncode == 0:
            continue
        if os.environ.get("WEFT_TEST_OFFLINE") == "1":
            pytest.skip(f"WEFT_TEST_OFFLINE: {home.name} is not there: {done.stderr[-300:]}")
        pytest.fail(f"{home.name} cannot be installed: {done.stderr[-600:]}\nWEFT_TEST_OFFLINE=1 leaves its tests out")


if __name__ == "__main__":
    for name in ("tensorflow", "serve"):
        python_of(name, ROOT / "tests" / name / "requirements.txt")
