# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow. Writes the answers of a SavedModel's signatures for an array and
its first row. signature_answers.py FOLDER INPUT.npy OUT.npz SIGNATURE..."""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1, x, kept = tf.compat.v1, np.load(sys.argv[2]), {}
with tf.Graph().as_default(), v1.Session() as session:
    signatures = v1.saved_model.load(session, ["serve"], sys.argv[1]).signature_def
    for name in sys.argv[4:]:
        (port,) = signatures[name].inputs.values()
        for number, part in enumerate((x, x[:1])):
            wanted = {key: value.name for key, value in signatures[name].outputs.items()}
            for key, y in session.run(wanted, {port.name: part}).items():
                kept[f"{number} {name} {key}"] = np.vectorize(bytes.decode, otypes=[str])(y) if y.dtype == object else y
np.savez(sys.argv[3], **kept)
