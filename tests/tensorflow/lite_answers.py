# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes LiteRT's answers of a model to random inputs, one run after the
other. lite_answers.py MODEL RUNS BATCH OUT.npz"""
import sys

import numpy as np
import tensorflow as tf

model, runs, batch, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
interpreter = tf.lite.Interpreter(model, num_threads=1)
for detail in interpreter.get_input_details():
    if batch > 1:
        interpreter.resize_tensor_input(detail["index"], [batch, *detail["shape"][1:]])
interpreter.allocate_tensors()
rng = np.random.default_rng(3)
kept = {}
for run in range(runs):
    for i, detail in enumerate(interpreter.get_input_details()):
        whole = np.issubdtype(detail["dtype"], np.integer)
        x = rng.integers(-128, 128, detail["shape"]) if whole else rng.random(detail["shape"])
        kept[f"{run} in {i}"] = x.astype(detail["dtype"])
        interpreter.set_tensor(detail["index"], kept[f"{run} in {i}"])
    interpreter.invoke()
    for i, detail in enumerate(interpreter.get_output_details()):
        kept[f"{run} out {i}"] = interpreter.get_tensor(detail["index"])
np.savez(out, **kept)
