# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes networks of keras.applications with random weights as SavedModels
with an open batch, and TensorFlow's answers.  applications.py FOLDER NAME...  `--all` prints all names. NAME.json lists
the weights that were drawn by a rule and their places in the weight file, so that these weights need not be copied to
other machines."""
import functools
import inspect
import json
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from drawn import values

FIXED = {"NASNetMobile": 224, "NASNetLarge": 331, "InceptionV3": 96, "InceptionResNetV2": 96, "Xception": 96}  # pixels per side; others: 64


def names():
    found = tf.keras.applications
    return sorted(name for name in dir(found) if inspect.isfunction(getattr(found, name)) and name[0].isupper())


RANGES = {"gamma": (0.2, 0.6), "beta": (-0.3, 0.3), "bias": (-0.1, 0.1)}


def draw(model):
    """Replaces kernels (He initialisation), gammas, betas and biases by random numbers; returns a description of each
    replaced weight. Gammas below 1 keep deep networks well-conditioned."""
    drawn = []
    for number, variable in enumerate(model.variables):
        shape, end = variable.shape, variable.path.split("/")[-1]
        if end.endswith("kernel"):
            most = float(np.sqrt(6 / np.prod(shape[:-1] if shape[-1] > 1 else shape[:-2])))  # a depthwise kernel sums over its window only, not over channels
            low, high = -most, most
        elif end in RANGES:
            low, high = RANGES[end]
        else:
            continue
        entry = {"number": number, "count": int(np.prod(shape)), "width": high - low, "middle": (low + high) / 2}
        variable.assign(values(entry).reshape(shape))
        drawn.append(entry)
    return drawn


def noise(rng, batch, size, most=2):
    return (rng.integers(-8, 9, (batch, size, size, 3)) / 8 * most).astype(np.float32)


def measured(layer, x, **_):
    """Normalises x with its own moments, which become the moments of the layer. They are rounded, so that files
    compress well. The variance of a channel is at least a quarter of the layer's mean variance. Otherwise a channel
    that hardly varies in the calibration pictures would be amplified too much in other pictures."""
    mean, variance = tf.nn.moments(x, list(range(x.shape.rank - 1)))
    for weight, moment in ((layer.moving_mean, mean), (layer.moving_variance, tf.maximum(variance, tf.reduce_mean(variance) / 4))):
        weight.assign(tf.cast(tf.cast(moment, tf.bfloat16), tf.float32))
    return type(layer).call(layer, x, training=False)


def calibrate(model, rng, size):
    """Measures the moments of the norms on noise, so that outputs depend on the input. Each norm measures its input
    after the earlier norms have their final moments. Moments of one training step lack the minimum variance and the
    rounding, so the error would grow from layer to layer."""
    norms = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    for layer in norms:
        layer.call = functools.partial(measured, layer)
    if norms:
        model(noise(rng, 16 if size < 200 else 4, size), training=False)
    for layer in norms:
        del layer.call


def made(name, size):
    return getattr(tf.keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None)


def exact(model, name, size):
    """Returns the same network in double precision, to measure the error of TensorFlow's own answers in single
    precision."""
    tf.keras.config.set_dtype_policy("float64")
    twin = made(name, size)
    tf.keras.config.set_dtype_policy("float32")
    for mine, its in zip(model.variables, twin.variables, strict=True):  # one by one: the largest network has 350 million weights
        its.assign(mine.numpy().astype(np.float64))
    return twin


def find(folder, name, drawn):
    """Records where the drawn weights are in the weight file."""
    data = (folder / name / "variables/variables.data-00000-of-00001").read_bytes()
    end = 0
    for entry in drawn:  # mostly in the order of the file
        content = values(entry).tobytes()
        entry["at"] = data.find(content, end) if content in data[end:end + 2 * len(content) + 8192] else data.index(content)
        end = entry["at"] + len(content)
    (folder / f"{name}.json").write_text(json.dumps(drawn))


def keep(folder, name):
    rng = np.random.default_rng(5)
    tf.random.set_seed(5)
    size = FIXED.get(name, 64)
    model = made(name, size)
    drawn = draw(model)
    calibrate(model, rng, size)
    spec = tf.TensorSpec([None, size, size, 3], tf.float32, "x")
    function = tf.function(lambda x: {"y": model(x, training=False)}, input_signature=[spec])
    tf.saved_model.save(model, folder / name, signatures={"serving_default": function})
    find(folder, name, drawn)
    kept, twin = {}, exact(model, name, size)
    for number, batch in enumerate((1, 3)):
        x = noise(rng, batch, size, 128 if name.startswith("ConvNeXt") else 2)  # ConvNeXt's first norm expects pixels up to 255
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
