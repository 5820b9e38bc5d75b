# SPDX-License-Identifier: Apache-2.0
"""Continues a text, byte by byte, with the model of this folder.

./x python examples/text/continue.py "A kernel is " [--bytes 200] [--heat 0.5] [--seed 0] [--engine onnxruntime]
"""

import argparse
import sys
from pathlib import Path

import numpy as np

MODEL = Path(__file__).resolve().parent / "text.onnx"
CONTEXT = 256  # the most bytes that the model reads


def load(engine):
    """Returns a function that maps bytes, int64 [1, seq], to the logits of the next byte at each position, f32 [1, seq, 256]."""
    if engine == "onnxruntime":
        import onnxruntime

        session = onnxruntime.InferenceSession(MODEL)
        return lambda text: session.run(None, {"bytes": text})[0]
    import weft

    model = weft.compile(MODEL)
    return lambda text: model.run({"bytes": text})["logits"]


def choose(logits, heat, random):
    """Returns the likeliest byte if heat is 0, else a random byte by the softmax of logits / heat. A greater heat
    chooses unlikely bytes more often."""
    if heat == 0:
        return int(logits.argmax())
    chance = np.exp((logits - logits.max()) / heat, dtype=np.float64)
    return int(random.choice(256, p=chance / chance.sum()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt")
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--heat", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["weft", "onnxruntime"], default="weft")
    arguments = parser.parse_args()
    run, random = load(arguments.engine), np.random.default_rng(arguments.seed)
    text = list(arguments.prompt.encode())
    sys.stdout.write(arguments.prompt)
    for _ in range(arguments.bytes):
        logits = run(np.array([text[-CONTEXT:]], np.int64))[0, -1]
        text.append(choose(logits, arguments.heat, random))
        sys.stdout.write(chr(text[-1]))
        sys.stdout.flush()
    print()


if __name__ == "__main__":
    main()
