# SPDX-License-Identifier: Apache-2.0
"""The wheels of both packages, built from the tree and used without it."""

import os
import subprocess
import sys
import zipfile

import pytest
from places import DIGITS, ROOT

#: With the flags of the plain build, and as deep in the tree, so that its compiled files are found in ccache.
# The long form: Debian 12's pip lacks -C.
SETTINGS = ["--config-settings=cmake.define.WEFT_WERROR=ON", "--config-settings=build.verbose=false"]

USE_WEFT = """
import numpy, weft
model = weft.compile("digits.onnx", device="cpu")
print(model(numpy.load("ten.npy")).argmax(1).tolist(), weft.__file__)
"""

USE_COMMAND = """
import subprocess, sys
subprocess.run([sys.executable, "-m", "weft", "run", "digits.onnx", "--input", "ten.npy", "-o", sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
subprocess.run([sys.executable, "-m", "weft", "verify", "digits.onnx", "--device", "cpu"], check=True, stdout=subprocess.DEVNULL)
assert subprocess.run([sys.executable, "-m", "weft", "nonsense"], stderr=subprocess.DEVNULL).returncode == 2
"""

USE_PROVIDER = """
import numpy, onnxruntime, onnxruntime_ep_weft
onnxruntime_ep_weft.register()
session = onnxruntime.InferenceSession("digits.onnx", providers=["WeftExecutionProvider"])
assert session.get_providers()[0] == "WeftExecutionProvider"
print(session.run(None, {"image": numpy.load("ten.npy")})[0].argmax(1).tolist(), onnxruntime_ep_weft.__file__)
"""


def build_wheel(source, folder, into):
    command = [sys.executable, "-m", "pip", "wheel", str(source), "--no-build-isolation", "--no-deps", "-q", "-w", str(into)]
    command += [*SETTINGS, f"--config-settings=build-dir={ROOT}/build/wheel-{folder}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.mark.parametrize(
    ("source", "folder", "script"), [(ROOT, "weft", USE_WEFT), (ROOT / "ort/python", "onnxruntime", USE_PROVIDER)]
)
def test_wheel(source, folder, script, tmp_path):
    wheel = build_wheel(source, folder, tmp_path)
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        file.extractall(tmp_path / "site")
    assert any(name.endswith("libweft-codegen.so") for name in names)
    assert not any(name.endswith((".cpp", ".h", ".a")) for name in names)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")} | {
        "PYTHONPATH": str(tmp_path / "site"),
        "WEFT_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run([sys.executable, "-c", script], cwd=DIGITS, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if folder == "weft":  # the package has the command too
        subprocess.run([sys.executable, "-c", USE_COMMAND, tmp_path / "out.npz"], cwd=DIGITS, env=environment, check=True)
    assert done.stdout.startswith("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]") and str(tmp_path) in done.stdout
