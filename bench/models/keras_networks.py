# SPDX-License-Identifier: Apache-2.0
"""keras_networks.py FOLDER NAME...: writes networks of keras.applications with random weights as SavedModels with an open
batch, and as .tflite files for one picture, in f32 and in int8. Needs a Python with TensorFlow."""
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

SIZE, PICTURES = 224, 4  # pixels along a side of a picture; number of pictures for calibration


def converter_of(model):
    """Returns a converter for the model with its variables frozen to constants, because calibration does not support
    variables."""
    spec = tf.TensorSpec([1, SIZE, SIZE, 3], tf.float32, "x")
    function = tf.function(lambda x: {"y": model(x, training=False)}).get_concrete_function(spec)
    return tf.lite.TFLiteConverter.from_concrete_functions([convert_variables_to_constants_v2(function)])


def keep(folder, name):
    rng = np.random.default_rng(5)
    tf.random.set_seed(5)
    model = getattr(tf.keras.applications, name)(weights=None, input_shape=(SIZE, SIZE, 3), classifier_activation=None)
    (folder / f"{name}.tflite").write_bytes(converter_of(model).convert())
    whole = converter_of(model)
    whole.optimizations = [tf.lite.Optimize.DEFAULT]
    whole.representative_dataset = lambda: ([rng.random((1, SIZE, SIZE, 3)).astype(np.float32)] for _ in range(PICTURES))
    whole.target_spec = tf.lite.TargetSpec([tf.lite.OpsSet.TFLITE_BUILTINS_INT8])
    whole.inference_input_type = whole.inference_output_type = tf.int8
    (folder / f"{name}_int8.tflite").write_bytes(whole.convert())
    spec = tf.TensorSpec([None, SIZE, SIZE, 3], tf.float32, "x")
    function = tf.function(lambda x: {"y": model(x, training=False)}, input_signature=[spec])
    tf.saved_model.save(model, folder / name, signatures={"serving_default": function})  # written last: if it exists, all files do


for name in sys.argv[2:]:
    keep(Path(sys.argv[1]), name)
