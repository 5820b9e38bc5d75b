# SPDX-License-Identifier: Apache-2.0
"""Trained models and networks of keras.applications on an emulated gfx1100, compared with TensorFlow's answers. The
plain run takes one model."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "amdemu")]
import emulated
from places import IS_FULL, judged

HERE = Path(__file__).resolve().parent
ALL = """alexa hey_jarvis hey_mycroft okay_nabu emotions face_detection_front face_detection_short_range face_landmark pitches pitches_lite age antispoof
    blazeface-front emotion facemesh facemesh-detection-short gear gender-ssrnet-imdb handtrack liveness meet selfie EfficientNetB0 MobileNet
    MobileNetV2 MobileNetV3Small""".split()
NAMES = ALL if IS_FULL else ["gender-ssrnet-imdb"]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_on_an_emulated_gpu(name, tmp_path):
    packed = subprocess.run([sys.executable, HERE / "pack_models.py", tmp_path, name], capture_output=True, text=True)
    assert packed.returncode == 0, packed.stderr[-3000:]
    with judged("models of TensorFlow on an emulated gfx1100"):
        done = emulated.run("gfx1100", sys.executable, HERE / "run_packed.py", tmp_path, "--device", "amd:0")
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        row = json.loads(done.stdout.splitlines()[0])
        assert row["values"]["runs"] > 0 and row["values"]["of_allowed"] <= 1
