# SPDX-License-Identifier: Apache-2.0
"""TensorFlow as the reference, in its own environment build/tensorflow, which is made when a test first needs it. Weft
itself does not need TensorFlow."""
import atexit
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent))
import environments


def environment():
    """Returns the Python that can import TensorFlow."""
    return environments.python_of("tensorflow", HERE / "requirements.txt")


@functools.cache
def forks(process, onednn):
    """Returns a process that runs scripts (forks.py); `process`: the caller's id, as each caller has its own."""
    settings = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": str(int(onednn))}
    server = subprocess.Popen([str(environment()), str(HERE / "forks.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=os.environ | settings)
    atexit.register(server.communicate)  # the process ends when its input is closed
    return server


def run(script, *arguments, onednn=True):
    """Runs a script of this folder with TensorFlow's Python. `onednn`: uses oneDNN's kernels; without
    oneDNN, some kernels are missing on processors that lack AVX-512."""
    server = forks(os.getpid(), onednn)
    with tempfile.NamedTemporaryFile("r", errors="replace") as log:
        server.stdin.write(json.dumps([log.name, str(HERE / script), *map(str, arguments)]) + "\n")
        server.stdin.flush()
        assert server.stdout.readline() == "0\n", log.read()[-3000:]


@functools.cache
def sources_hash():
    files = [*sorted(HERE.glob("*.py")), HERE / "requirements.txt"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def folder_of(script, *sources):
    """Returns the folder that `script FOLDER` fills. It is kept in build/tensorflow_models, and shared by test runs,
    until a Python file of tests/tensorflow or its requirements.txt changes."""
    folder = ROOT / "build/tensorflow_models" / "-".join([Path(script).stem, *sources])
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp, wanted = folder.with_suffix(".stamp"), sources_hash()
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == wanted):
            stamp.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            run(script, folder, *sources)
            stamp.write_text(wanted)
    return folder
