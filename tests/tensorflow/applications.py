# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: networks of keras.applications with random weights as SavedModels with an open batch, and
TensorFlow's answers.  applications.py FOLDER [--drawn] NAME...  `--all` prints the names of all. With `--drawn`, large weights are
stored as zeros and can be regenerated: NAME.json describes them."""
import inspect
import json
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

FIXED = {"NASNetMobile": 224, "NASNetLarge": 331, "InceptionV3": 96, "InceptionResNetV2": 96, "Xception": 96}  # smallest picture size; default 64


def names():
    found = tf.keras.applications
    return sorted(name for name in dir(found) if inspect.isfunction(getattr(found, name)) and name[0].isupper())


RANGES = {"gamma": (0.2, 0.6), "beta": (-0.3, 0.3), "moving_mean": (-0.3, 0.3), "moving_variance": (0.5, 1.5)}


def spread(model, rng, size):
    """Randomises the norms, with the moments measured on noise, so that outputs depend on the input. Factors below 1 keep deep networks
    well-conditioned: with factors around 1 single precision differs from double by a tenth."""
    for variable in model.variables:
        if (end := variable.path.split("/")[-1]) in RANGES:
            variable.assign(rng.uniform(*RANGES[end], variable.shape).astype(np.float32))
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(rng.uniform(-2, 2, (4, size, size, 3)).astype(np.float32), training=True)


def made(name, size):
    return getattr(tf.keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None)


def exact(model, name, size):
    """The same network in double precision, to measure the error of TensorFlow's own answers in single precision."""
    tf.keras.config.set_dtype_policy("float64")
    twin = made(name, size)
    tf.keras.config.set_dtype_policy("float32")
    twin.set_weights([weight.astype(np.float64) for weight in model.get_weights()])
    return twin


def draw(model):
    """Replaces large weights by random numbers (He initialisation); returns the description of each and its values."""
    drawn = []
    for number, variable in enumerate(model.variables):
        shape = variable.shape
        count = int(np.prod(shape))
        if count > 20_000 and len(shape) > 1:
            width = float(np.float32(2 * np.sqrt(6 / np.prod(shape[:-1]))))
            x = (np.random.default_rng([7, number]).random(count, np.float32) - np.float32(0.5)) * np.float32(width)
            variable.assign(x.reshape(shape))
            drawn.append(({"number": number, "count": count, "width": width}, x.tobytes()))
    return drawn


def leave_out(folder, name, drawn):
    """Overwrites the drawn weights in the weight file with zeros; records their places."""
    path, entries = folder / name / "variables/variables.data-00000-of-00001", []
    data = bytearray(path.read_bytes())
    for entry, content in drawn:
        at = data.index(content)
        data[at:at + len(content)] = bytes(len(content))
        entries.append(entry | {"at": at})
    path.write_bytes(data)
    (folder / f"{name}.json").write_text(json.dumps(entries))


def keep(folder, name, is_drawn):
    rng = np.random.default_rng(5)
    tf.random.set_seed(5)
    size = FIXED.get(name, 64)
    model = made(name, size)
    drawn = draw(model) if is_drawn else []
    spread(model, rng, size)
    spec = tf.TensorSpec([None, size, size, 3], tf.float32, "x")
    function = tf.function(lambda x: {"y": model(x, training=False)}, input_signature=[spec])
    tf.saved_model.save(model, folder / name, signatures={"serving_default": function})
    kept, twin = {}, exact(model, name, size)
    for number, batch in enumerate((1, 3)):
        x = rng.uniform(-2, 2, (batch, size, size, 3)).astype(np.float32)
        kept[f"{number} in x"], kept[f"{number} exact y"] = x, twin(x.astype(np.float64), training=False).numpy()
        kept[f"{number} error y"] = np.abs(function(x)["y"].numpy() - kept[f"{number} exact y"]).max()
    np.savez(folder / f"{name}.npz", **kept)
    if is_drawn:
        leave_out(folder, name, drawn)


def main():
    if sys.argv[1] == "--all":
        print(*names())
        return
    is_drawn = "--drawn" in sys.argv
    for name in sys.argv[2 + is_drawn:]:
        keep(Path(sys.argv[1]), name, is_drawn)


main()
