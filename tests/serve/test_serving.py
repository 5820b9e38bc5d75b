# SPDX-License-Identifier: Apache-2.0
"""`weft serve` and its clients, each file of cases under a separate Python (environment.py). A plain run takes two
files, different ones each day."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import environment
from places import BUILD, DIGITS, IS_FULL, todays


# A full run includes Ray and Chromium. Both are large, and Ray takes a minute to start and to stop.
CASES = [*todays(["protocol", "clients", "guards", "versions", "damaged", "devices"], 3), *(["page"] if IS_FULL else [])]


@pytest.mark.long
@pytest.mark.parametrize("cases", CASES)
def test_serving(cases):
    environment.run_cases("serve", f"{cases}_cases.py")


if IS_FULL:

    def test_ray_on_one_node():
        environment.run_cases("ray", "ray_cases.py", "-W", "ignore")

    def test_ray_on_two_nodes():
        done = subprocess.run([environment.python_of("ray"), environment.HERE / "two_nodes.py"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def weft_serve(*words):
    command = [str(word) for word in (BUILD / "bin" / "weft", "serve", *words)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})


def test_the_command_starts_python_or_says_how_to_install_it():
    done = weft_serve("--options", "--python", environment.python_of("serve"))
    assert done.returncode == 0 and "--batch-delay" in done.stdout, done.stderr
    done = weft_serve("m.onnx", "--python=/nowhere/python")
    assert done.returncode == 4 and "E219" in done.stderr and "pip install 'weft[serve]'" in done.stderr
    done = weft_serve("--python", sys.executable)
    assert done.returncode == 2 and "name a model" in done.stderr


def test_without_fastapi_a_line_says_what_to_install():
    code = "import sys; sys.modules['fastapi'] = None; from weft.serve.__main__ import main; sys.exit(main(sys.argv[1:]))"
    environment_ = os.environ | {"PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run([sys.executable, "-c", code, str(DIGITS / "digits.onnx")], capture_output=True, text=True, env=environment_)
    assert done.returncode == 4 and done.stderr.startswith("error[E219]") and "weft[serve]" in done.stderr
