# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: the answers of a SavedModel's signatures to one input.
signature_answers.py FOLDER INPUT.npy OUT.npz SIGNATURE..."""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

model, x = tf.saved_model.load(sys.argv[1]), np.load(sys.argv[2])
kept = {}
for name in sys.argv[4:]:
    signature = model.signatures[name]
    (port,) = signature.structured_input_signature[1]
    for number, part in enumerate((x, x[:1])):
        for key, value in signature(**{port: tf.constant(part)}).items():
            y = value.numpy()
            kept[f"{number} {name} {key}"] = np.vectorize(bytes.decode, otypes=[str])(y) if y.dtype == object else y
np.savez(sys.argv[3], **kept)
