# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: networks of keras.applications with random weights as SavedModels with an open batch, and
TensorFlow's answers.  applications.py FOLDER NAME...  `--all` prints the names of all."""
import inspect
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

FIXED = {"NASNetMobile": 224, "NASNetLarge": 331, "InceptionV3": 96, "InceptionResNetV2": 96, "Xception": 96}  # the least, else 64


def names():
    found = tf.keras.applications
    return sorted(name for name in dir(found) if inspect.isfunction(getattr(found, name)) and name[0].isupper())


def spread(model, rng, size):
    """Norms that are not the identity, with the moments of noise, so that outputs differ from input to input."""
    for variable in model.variables:
        end = variable.path.split("/")[-1]
        if end in ("gamma", "beta", "moving_mean", "moving_variance"):
            low, high = (0.5, 1.5) if end in ("gamma", "moving_variance") else (-0.3, 0.3)
            variable.assign(rng.uniform(low, high, variable.shape).astype(np.float32))
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(rng.uniform(-2, 2, (4, size, size, 3)).astype(np.float32), training=True)


def made(name, size):
    return getattr(tf.keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None)


def exact(model, name, size):
    """The same network in double precision: what TensorFlow's own answers, in single precision, are measured by."""
    tf.keras.config.set_dtype_policy("float64")
    twin = made(name, size)
    tf.keras.config.set_dtype_policy("float32")
    twin.set_weights([weight.astype(np.float64) for weight in model.get_weights()])
    return twin


def keep(folder, name):
    rng = np.random.default_rng(5)
    tf.random.set_seed(5)
    size = FIXED.get(name, 64)
    model = made(name, size)
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


def main():
    if sys.argv[1] == "--all":
        print(*names())
        return
    for name in sys.argv[2:]:
        keep(Path(sys.argv[1]), name)


main()
