# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of this folder on several older stock wheels of onnxruntime, oldest first:

    python tests/ort/on_wheels.py [VERSION ...] [-- ARGUMENTS OF PYTEST]

Wheels are installed below the build folder once, beside the packages of this Python. `./x test --release` runs this
script; other test runs use the installed wheel, 1.32.0."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", HERE.parents[1] / "build/release"))
WHEELS = ["1.24.4", "1.25.1", "1.27.0", "1.30.0", "1.31.1"]


def install(version):
    folder = BUILD / f"onnxruntime-{version}"
    if not (folder / "onnxruntime").exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target",
                        folder, f"onnxruntime=={version}"], check=True)
    return folder


def test(version, arguments):
    paths = os.pathsep.join([str(install(version)), *filter(None, [os.environ.get("PYTHONPATH")])])
    print(f"onnxruntime {version}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", HERE, *arguments],
                          env={**os.environ, "PYTHONPATH": paths}).returncode


def main(words):
    at = words.index("--") if "--" in words else len(words)
    return max(test(version, words[at + 1:]) for version in words[:at] or WHEELS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
