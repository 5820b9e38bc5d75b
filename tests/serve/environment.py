# SPDX-License-Identifier: Apache-2.0
"""Separate environments for the server and its clients, build/serve and build/ray, which are made when a test first
needs them. Weft needs neither unless it serves models."""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import environments


def python_of(name):
    """Returns the Python of the environment build/NAME, with the packages that NAME requires."""
    return environments.python_of(name, HERE / f"requirements{'' if name == 'serve' else '_' + name}.txt")


def run_cases(name, file, *words):
    """Runs pytest on a file of cases of this folder, with that environment's Python."""
    command = [python_of(name), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", HERE, HERE / file, *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=HERE, env=os.environ)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    print(done.stdout[-200:])
