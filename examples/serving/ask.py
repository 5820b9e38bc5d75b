# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a server that runs both example models. This script needs numpy.

    weft serve examples/digits/digits.onnx examples/text/text.onnx
    python examples/serving/ask.py http://127.0.0.1:8000
"""
import json
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[1]
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def infer(url, model, name, array):
    """Sends one input and returns one output. The request and the answer are JSON that describes a tensor, then its bytes."""
    kinds = {"float32": "FP32", "int64": "INT64"}
    given = {"name": name, "datatype": kinds[str(array.dtype)], "shape": array.shape, "parameters": {"binary_data_size": array.nbytes}}
    head = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    request = urllib.request.Request(f"{url}/v2/models/{model}/infer", head + array.tobytes(), headers)
    with urllib.request.urlopen(request) as answer:
        body, size = answer.read(), int(answer.headers["Inference-Header-Content-Length"])
    (output,) = json.loads(body[:size])["outputs"]
    return np.frombuffer(body[size:], np.float32).reshape(output["shape"])


def main(url):
    pictures = np.load(EXAMPLES / "digits" / "ten.npy")
    begin = time.perf_counter()
    probability = infer(url, "digits", "image", pictures[7:8])
    print(f"the picture: {WORDS[probability.argmax()]}, {1000 * (time.perf_counter() - begin):.1f} ms")

    text = np.frombuffer(b"A kernel is ", np.uint8).astype(np.int64)[None]
    logits = infer(url, "text", "bytes", text)
    print(f"the text: after {bytes(text[0].astype(np.uint8)).decode()!r} comes {chr(logits[0, -1].argmax())!r}")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
