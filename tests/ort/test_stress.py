# SPDX-License-Identifier: Apache-2.0
"""A C++ program whose threads share sessions while another thread creates and releases sessions: results have equal
bits, and memory does not grow.

`python tests/ort/test_stress.py build/tsan` is the test of a TSan build, which plain Python cannot load: `./x test
--tsan` runs it for some seconds, `./x test --release` for ten minutes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from models import TAKES_OUTER_VALUES, mlp, model


def convnet():
    """Makes a model of convolutions with a residual connection, pooling and a softmax, with an open batch."""
    random = np.random.default_rng(1)
    weights = [("a", random.standard_normal((16, 3, 3, 3)).astype(np.float32)),
               ("b", random.standard_normal((16, 16, 3, 3)).astype(np.float32) / 12)]
    nodes = [helper.make_node("Conv", ["x", "a"], ["h"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Conv", ["r", "b"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "r"], ["s"]),
             helper.make_node("GlobalAveragePool", ["s"], ["p"]), helper.make_node("Softmax", ["p"], ["y"], axis=1)]
    return model(nodes, [("x", TensorProto.FLOAT, ["n", 3, 17, 13])], [("y", TensorProto.FLOAT, ["n", 16, 1, 1])], weights)


def loop(reads_outer_values):
    """Makes a model of a loop of five trips; its state is a tensor of open size. The value that each trip adds comes
    from outside the loop, or is carried by the loop."""
    port = lambda name, kind=TensorProto.FLOAT, dims=("n", 20): helper.make_tensor_value_info(name, kind, dims)
    carried = [] if reads_outer_values else ["w"]
    nodes = [helper.make_node("Tanh", ["s"], ["t"]), helper.make_node("Add", ["t", *(carried or ["x"])], ["u"]),
             helper.make_node("Identity", ["go"], ["on"]), *(helper.make_node("Identity", ["w"], ["z"]) for _ in carried)]
    body = helper.make_graph(nodes, "body", [port("i", TensorProto.INT64, []), port("go", TensorProto.BOOL, []), port("s"),
                                             *map(port, carried)],
                             [port("on", TensorProto.BOOL, []), port("u"), *(port("z") for _ in carried)])
    outer = helper.make_node("Loop", ["turns", "", "x", *("x" for _ in carried)], ["y", *("last" for _ in carried)], body=body)
    return model([outer], [port_of("x")], [port_of("y")], [("turns", np.array(5, np.int64))])


def port_of(name):
    return name, TensorProto.FLOAT, ["n", 20]


def stress(build, threads, amount, **variables):
    """Runs the program and returns its findings as a dictionary; `amount` is a number of calls for each thread, or
    "20s"."""
    stock = next((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    with tempfile.TemporaryDirectory() as folder:
        models = []
        for name, proto in {"mlp": mlp(), "wide": mlp(1, 300), "convnet": convnet(), "loop": loop(TAKES_OUTER_VALUES)}.items():
            models.append(f"{folder}/{name}.onnx")
            pathlib.Path(models[-1]).write_bytes(proto.SerializeToString())
        done = subprocess.run([build / "bin/weft-ort_stress", stock, build / "lib/libweft-onnxruntime.so", str(threads),
                               str(amount), *models], capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-20000:]
    return json.loads(done.stdout)


def test_threads_share_sessions():
    from places import BUILD

    found = stress(BUILD, 8, 12_500)
    assert found["calls"] >= 100_000 and found["sessions"] > 0 and found["wrong"] == 0
    assert found["grown_kib"] <= 2048


def options(suppressions):
    """Returns options with which a sanitizer report fails the program. Reports in onnxruntime's own frames are
    suppressed."""
    return {"TSAN_OPTIONS": f"report_mutex_bugs=0 suppressions={HERE / suppressions}"}


if __name__ == "__main__":
    stress(pathlib.Path(sys.argv[1]).resolve(), 8, "1s", **options("tsan_compiling.txt"))  # compiles the kernels
    print(stress(pathlib.Path(sys.argv[1]).resolve(), 8, "600s" if os.environ.get("WEFT_TEST_FULL") == "1" else "20s",
                 **options("tsan.txt")))
