# SPDX-License-Identifier: Apache-2.0
"""Times stock onnxruntime with Weft as its provider, and Weft alone, on a GPU; the two alternate. Measures the wall
time of a call with inputs and outputs left on the device (IO binding; `on_device`), and of a call of onnxruntime with
inputs and outputs in host memory.

  PYTHONPATH=build/release/python python bench/onnxruntime_gpu.py [--models resnet50,bert_base] [--precisions f32,f16] [--out results.jsonl]

Needs onnxruntime 1.25 or newer, torch (for device memory) and a CUDA GPU; WEFT_LIBRARY names libweft.so.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_ep_weft

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
import fill
import machine
from gpu import distance, expected
from weft_library import OnDevice, Program

NVIDIA = 0x10DE
PLACE = ("gpu", 0, NVIDIA)


def session_of(path, precision):
    options = {"migraphx_fp16_enable": "1"} if precision == "f16" else {}
    return onnxruntime.InferenceSession(str(path), providers=[(onnxruntime_ep_weft.get_ep_name(), options)])


def bound(session, feeds, results):
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *PLACE))
    outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(array), *PLACE) for array in results]
    for port, value in zip(session.get_outputs(), outputs):
        binding.bind_ortvalue_output(port.name, value)
    return binding, outputs


def microseconds(run, seconds=0.3):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def one_case(model, precision, rounds):
    path, feeds = fill.cached(model), fill.feeds(model, fill.cases(model)[0])
    results = expected(path, feeds)
    session = session_of(path, precision)
    binding, outputs = bound(session, feeds, results)
    alone = OnDevice(Program(path, 0, precision, {}, "gpu"), feeds, results)
    ways = [lambda: session.run_with_iobinding(binding), alone.run, lambda: session.run(None, feeds)]
    for way in ways:
        microseconds(way, 0.1)
    turns = [[microseconds(way) for way in ways] for _ in range(rounds)]
    inside, outside, host = (statistics.median(column) for column in zip(*turns))
    ratio = statistics.median(a / b for a, b, _ in turns)
    error = max(distance(y.numpy(), r) for y, r in zip(outputs, results, strict=True))
    values = {"bound_us": inside, "from_host_us": host, "error": error}
    return machine.result("inside onnxruntime on a GPU", {"model": model, "sizes": fill.cases(model)[0], "precision": precision},
                          values, {"weft alone": {"us": outside, "ratio": ratio}}, machine=machine.gpu())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(fill.names()))
    parser.add_argument("--precisions", default="f32,f16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    onnxruntime_ep_weft.register()
    for model in arguments.models.split(","):
        for precision in arguments.precisions.split(","):
            machine.tell(one_case(model, precision, arguments.rounds), arguments.out)


if __name__ == "__main__":
    main()
