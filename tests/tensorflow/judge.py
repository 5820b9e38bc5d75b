# SPDX-License-Identifier: Apache-2.0
"""TensorFlow as a judge: in an environment of its own, build/tensorflow, which is made when a test first wants it. Nothing of it
is needed to build or run Weft."""
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = ROOT / "build" / "tensorflow"


def environment():
    """The Python that can import TensorFlow."""
    python, wanted = HOME / "bin/python", (HERE / "requirements.txt").read_text()
    stamp = HOME / "requirements.txt"
    HOME.parent.mkdir(exist_ok=True)
    with open(HOME.with_suffix(".lock"), "w") as lock:  # tests may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            install(python)
            stamp.write_text(wanted)
    return python


def install(python):
    for command in ([sys.executable, "-m", "venv", str(HOME)],
                    [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q", "-r", str(HERE / "requirements.txt")]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            continue
        if os.environ.get("WEFT_TEST_OFFLINE") == "1":
            pytest.skip(f"WEFT_TEST_OFFLINE: TensorFlow is not there: {done.stderr[-300:]}")
        pytest.fail(f"TensorFlow cannot be installed: {done.stderr[-600:]}\nWEFT_TEST_OFFLINE=1 leaves its tests out")


def run(script, *arguments):
    """A script of this folder under that Python."""
    done = subprocess.run([str(environment()), str(HERE / script), *map(str, arguments)], capture_output=True, text=True,
                          env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def folder_of(script, tmp_path_factory, *sources):
    """The folder that `script FOLDER` fills, once for all processes of a test run."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared
    folder = shared / Path(script).stem
    with open(shared / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = shared / f"{folder.name}.part"
            part.mkdir(exist_ok=True)
            run(script, part, *sources)
            part.rename(folder)
    return folder
