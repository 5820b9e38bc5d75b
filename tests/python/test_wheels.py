# SPDX-License-Identifier: Apache-2.0
"""The wheels of both packages, built from the tree and used without it. A plain run tests them on one day in three,
--release always."""

import os
import subprocess
import sys
import zipfile

import pytest

from places import DIGITS, ROOT

#: The flags of the plain build. Together with a build folder at the same depth in the tree (build/wheel) they let
#: ccache find its compiled files. The long form of the option is needed because Debian 12's pip lacks -C.
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


def build_wheel(source, into):
    command = [sys.executable, "-m", "pip", "wheel", str(source), "--no-build-isolation", "--no-deps", "-q", "-w", str(into)]
    command += [*SETTINGS, f"--config-settings=build-dir={ROOT}/build/wheel"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (wheel,) = into.glob("*.whl")
    return wheel


def check_wheel(source, script, tmp_path):
    tmp_path.mkdir()
    wheel = build_wheel(source, tmp_path)
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        file.extractall(tmp_path / "site")
    assert any(name.endswith("libweft-codegen.so") for name in names)
    assert not any(name.endswith((".cpp", ".h", ".a")) for name in names)
    (library,) = (tmp_path / "site").rglob("libweft-codegen.so")
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", "--version-info", library], check=True, capture_output=True, text=True).stdout
    assert not any(name in symbols for name in ("arc4random", "GLIBC_ABI_DT_RELR"))  # Ubuntu 22.04 has neither
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")} | {
        "PYTHONPATH": str(tmp_path / "site"),
        "WEFT_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run([sys.executable, "-c", script], cwd=DIGITS, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if source == ROOT:  # the package has the command too
        subprocess.run([sys.executable, "-c", USE_COMMAND, tmp_path / "out.npz"], cwd=DIGITS, env=environment, check=True)
    assert done.stdout.startswith("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]") and str(tmp_path) in done.stdout


@pytest.mark.long
@pytest.mark.rotates(3)
def test_wheels(tmp_path):
    """Checks both wheels one after the other, because both are built in build/wheel."""
    check_wheel(ROOT, USE_WEFT, tmp_path / "weft")
    check_wheel(ROOT / "ort/python", USE_PROVIDER, tmp_path / "provider")
