# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import environments
from places import BUILD, ROOT

WHEEL = "onnxruntime-migraphx==1.27.1"


@pytest.fixture(scope="session")
def wheel():
    """Provides AMD's wheel, unchanged, in a folder of its own: its package has the same name as the onnxruntime of
    other tests."""
    folder = BUILD / WHEEL.replace("==", "-")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=BUILD) as place:
            new = pathlib.Path(place) / "wheel"
            done = environments.fetched([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
                                         "--target", new, WHEEL])
            assert done.returncode == 0, done.stderr[-3000:]
            with contextlib.suppress(OSError):  # another process of this test run was first
                new.rename(folder)
    return folder


@pytest.fixture(scope="session")
def client(wheel):
    """Provides a function that runs wheel_client.py with the wheel and Weft's libraries, and returns its output."""

    def run(*words, **variables):
        paths = os.pathsep.join(map(str, (wheel, BUILD / "python", ROOT / "tests/ort")))
        done = subprocess.run([sys.executable, ROOT / "tests/migraphx/wheel_client.py", *map(str, words)],
                              env={**os.environ, "PYTHONPATH": paths, **variables}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
