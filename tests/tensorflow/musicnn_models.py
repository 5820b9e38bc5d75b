# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes a training graph and checkpoint of version 1 (.meta, .index, .data)
as a SavedModel, with TensorFlow's answers.  musicnn_models.py OUT FOLDER NAME

The whole graph is kept: losses, optimiser and training branches stay in the graph in addition to the signature's
nodes."""
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def main(out, folder, name):
    rng, kept = np.random.default_rng(3), {}
    with tf.Graph().as_default() as graph, v1.Session() as session:
        meta = v1.MetaGraphDef.FromString((folder / ".meta").read_bytes())
        for node in meta.graph_def.node:
            node.attr.pop("_output_shapes", None)  # later versions of TensorFlow reject these shapes
        v1.train.import_meta_graph(meta).restore(session, f"{folder}/")
        x, training, y = (graph.get_tensor_by_name(f"model/{end}:0") for end in ("Placeholder", "Placeholder_2", "Sigmoid"))
        v1.saved_model.simple_save(session, str(out / name), {"x": x, "training": training}, {"y": y})
        for number, batch in enumerate((1, 2)):
            frames = np.cumsum(rng.normal(0, 0.3, (batch, 187, 96)), 1).astype(np.float32)
            feeds = {x: frames, training: False}
            moved = session.run(y, feeds | {x: frames * np.float32(1 + 2**-20)})
            kept |= {f"{number} in x": frames, f"{number} in training": np.array(False), f"{number} out y": session.run(y, feeds)}
            kept[f"{number} moved y"] = np.abs(moved - kept[f"{number} out y"]).max()
    np.savez(out / f"{name}.npz", **kept)


main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
