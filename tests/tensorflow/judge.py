# SPDX-License-Identifier: Apache-2.0
"""TensorFlow as the reference, in its own environment build/tensorflow, made when a test first needs it. Weft itself does not
need it."""
import fcntl
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent))
import environments


def environment():
    """Returns the Python that can import TensorFlow."""
    return environments.python_of("tensorflow", HERE / "requirements.txt")


def run(script, *arguments):
    """Runs a script of this folder with that Python."""
    done = subprocess.run([str(environment()), str(HERE / script), *map(str, arguments)], capture_output=True, text=True,
                          env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "",
                                           "TF_ENABLE_ONEDNN_OPTS": "1"})  # else some kernels are missing on processors without AVX-512
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def folder_of(script, tmp_path_factory, *sources):
    """Returns the folder that `script FOLDER` fills, once for all processes of a test run."""
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
