# SPDX-License-Identifier: Apache-2.0
"""Checks with onnxruntime that the benchmark's models can reveal a wrong kernel.

  python bench/models/check.py [NAME ...]

At every size of `NAME.json`: the outputs are finite, no output is constant, and the first member of a batch differs
from every other member. At the first sizes, and at the smallest sizes without a 1: every output changes when any one
input changes.
A random network could be almost constant; a wrong kernel would then go unnoticed. Needs numpy, onnx and onnxruntime.
"""

import sys
import time

import numpy as np
import onnxruntime

import fill

LEAST_SPREAD = 1e-3  # least standard deviation of an output over its root mean square
LEAST_MOVE = 1e-3  # least change of an output, relative to its norm, when one input gets new random values


def session(name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(fill.cached(name), options, providers=["CPUExecutionProvider"])


def run(engine, feeds):
    return dict(zip((output.name for output in engine.get_outputs()), engine.run(None, feeds)))


def norm(value):
    return float(np.linalg.norm(value.astype(np.float64).ravel()))


def moved(name, key, value):
    """Returns another value for one input: drawn with another seed, or, where that changes nothing (a mask), with the first
    element of each row flipped."""
    dims = value.shape
    other = fill.draw(fill.recipe(name)["inputs"][key], dims, value.dtype, 2, f"input/{key}")
    if np.array_equal(other, value):
        other = value.copy()
        other[..., 0] = 1 - other[..., 0]
    return other


def batch_axis(engine, output):
    dims = next(value.shape for value in engine.get_outputs() if value.name == output)
    return dims.index("batch")


def check_outputs(engine, outputs):
    """Returns what is wrong with the outputs of one run: a list of sentences."""
    wrong = []
    for key, value in outputs.items():
        if not np.isfinite(value).all():
            wrong.append(f"{key} holds NaN or infinity")
            continue
        spread = float(value.std(dtype=np.float64)) / (norm(value) / np.sqrt(value.size))
        if spread < LEAST_SPREAD:
            wrong.append(f"{key} is all but constant: its deviation is {spread:.1e} of its size")
        rows = np.moveaxis(value, batch_axis(engine, key), 0)
        if any(np.array_equal(rows[0], row) for row in rows[1:]):
            wrong.append(f"{key} is the same for two members of the batch")
    return wrong


def check_moves(engine, name, feeds, outputs):
    """Returns a sentence for each output that ignores an input, and the smallest change of any output. Skips empty
    inputs."""
    wrong, least = [], np.inf
    for key in feeds:
        if feeds[key].size == 0:
            continue  # an empty past cannot be changed
        after = run(engine, {**feeds, key: moved(name, key, feeds[key])})
        for output, value in outputs.items():
            move = norm(after[output] - value) / norm(value)
            least = min(least, move)
            if not move > LEAST_MOVE:
                wrong.append(f"{output} hardly moves with {key}: {move:.1e}")
    return wrong, least


def how_small(sizes):
    """Returns a sort key for sizes: their product. Sizes that contain a 1 come last, because a single position may
    ignore a mask and the past may be empty."""
    return 1 in sizes.values(), np.prod([size or 1 for size in sizes.values()])


def check(name):
    """Checks a model at every size; returns a sentence for each fault."""
    start = time.time()
    engine = session(name)
    cases = fill.cases(name)
    smallest = min(cases, key=how_small)
    wrong, least = [], np.inf
    for sizes in cases:
        feeds = fill.feeds(name, sizes)
        outputs = run(engine, feeds)
        found = check_outputs(engine, outputs)
        if sizes in (cases[0], smallest):
            more, move = check_moves(engine, name, feeds, outputs)
            found, least = found + more, min(least, move)
        wrong += [f"{name} at {sizes}: {sentence}" for sentence in found]
    sizes = {key: f"{norm(value) / np.sqrt(value.size):.2g}" for key, value in outputs.items()}
    print(
        f"{name}: {len(cases)} sizes, outputs of size {sizes}, least move {least:.2g}, {len(wrong)} wrong, "
        f"{time.time() - start:.0f} s",
        flush=True,
    )
    return wrong


def main():
    wrong = [sentence for name in sys.argv[1:] or fill.names() for sentence in check(name)]
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
