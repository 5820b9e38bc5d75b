# SPDX-License-Identifier: Apache-2.0
"""Runs the bench models on a GPU. Checks the answers (against onnxruntime in f32) and that every replay of the captured
graph gives equal bits. Measures latencies with inputs and outputs left on the device.

  python bench/gpu.py [--models resnet50,bert_base] [--precisions f32,f16] [--cases 1] [--out results.jsonl]

Needs onnxruntime, a GPU and its driver; WEFT_LIBRARY names libweft.so and WEFT_COMMAND the command line.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
import fill
from weft_library import Program

COMMAND = os.environ.get("WEFT_COMMAND", "weft")
# The fields of a row that say what was measured, and the fields with PyTorch's figures. All others are Weft's figures,
# except `kernels`, which is not kept.
SUBJECT = ("model", "network", "decoder", "batch", "sizes", "fixed", "precision", "past", "room", "mode", "gemm", "type", "operator",
           "k", "n", "rows", "bits", "block", "random_sizes", "shape", "device", "candidate")
PYTORCH = ("eager_ms", "graph_ms", "compile_ms", "compile_graph_ms", "torch_compile_s", "torch_ms", "torch_us", "torch_tflops", "torch_failure")
TOLERANCE = {"f32": 1e-4, "f16": 3e-2, "bf16": 1e-1}


def tell(what, row, path):
    """Prints `row`, a flat dict, as a row of a result file, and appends it to the file `path`, if a path is given."""
    of = {key: value for key, value in row.items() if key in SUBJECT}
    torch = {key.removeprefix("torch_"): value for key, value in row.items() if key in PYTORCH}
    values = {key: value for key, value in row.items() if key not in (*SUBJECT, *PYTORCH, "kernels")}
    machine.tell(machine.result(what, of, values, {"pytorch": torch} if torch else None, machine=machine.of_device(row.get("device", "gpu"))), path)


def expected(path, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def distance(y, r):
    y, r = np.asarray(y, np.float64), np.asarray(r, np.float64)
    if y.shape != r.shape or not np.array_equal(np.isfinite(y), np.isfinite(r)):
        return float("inf")
    finite = np.isfinite(r)
    return float(np.linalg.norm((y - r)[finite]) / max(np.linalg.norm(r[finite]), 1e-30))


def input_options(folder, feeds):
    words = []
    for name, array in feeds.items():
        file = Path(folder, f"{len(words)}.npy")
        np.save(file, array)
        words += ["-i", f"{name}={file}"]
    return words


def command(verb, path, words, limit=120):
    run = subprocess.run([COMMAND, verb, str(path), *words], capture_output=True, text=True, timeout=limit)
    return run.stdout if run.returncode == 0 else run.stdout + run.stderr


def measured(path, device, precision, words, kernels):
    """Returns {"ms": the median by the device's clock, "kernels": a text that lists the slowest kernels}, or {"error":
    a text} if the model did not run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        options = ["--device", device, "--precision", precision, "--on-device", "--duration", "0.5", "--json", file.name]
        text = command("perf", path, [*options, "--kernels", str(kernels), *words])
        content = Path(file.name).read_text()
    if not content:
        return {"error": text}
    figures = json.loads(content)
    return {"ms": round(figures["latency_ms"]["median"], 5), "kernels": text.split("\n\n")[-1]}


def one_case(model, path, sizes, precision, arguments, replays=20):
    feeds = fill.feeds(model, sizes)
    row = {"model": model, "precision": precision, "sizes": sizes, "fixed": arguments.fixed}
    start = time.time()
    program = Program(path, 0, precision, sizes if arguments.fixed else {}, arguments.device)
    row["compile_s"] = round(time.time() - start, 3)
    first = [np.array(array) for array in program.run(feeds).values()]
    row["first_answer_s"] = round(time.time() - start, 3)
    row["error"] = max(distance(y, r) for y, r in zip(first, expected(path, feeds), strict=True))
    row["right"] = row["error"] < TOLERANCE[precision]
    row["replays_equal"] = all(
        all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, program.run(feeds).values(), strict=True))
        for _ in range(replays)
    )
    return row, feeds


def failing_step(path, precision, words, device):
    try:
        return command("verify", path, ["--device", device, "--precision", precision, "--bisect", *words])[-1500:]
    except subprocess.TimeoutExpired:
        return "the search for the first wrong step took too long"


def run(model, sizes, precision, arguments):
    path = fill.cached(model)
    with tempfile.TemporaryDirectory() as folder:
        try:
            row, feeds = one_case(model, path, sizes, precision, arguments)
        except Exception as problem:  # one failure must not stop the other cases
            return {"model": model, "precision": precision, "sizes": sizes, "failure": str(problem)[:3000]}
        words = input_options(folder, feeds)
        if arguments.fixed:
            words += [word for name, size in sizes.items() for word in ("--symbol", f"{name}={size}")]
        if not row["right"] and arguments.bisect:
            row["first_wrong"] = failing_step(path, precision, words, arguments.device)
        row |= measured(path, arguments.device, precision, words, arguments.kernels)
    return row


def show(row):
    if "failure" in row:
        return f"{row['model']} {row['precision']} {row['sizes']}: FAILED\n{row['failure']}"
    head = (
        f"{row['model']} {row['precision']} {row['sizes']}: {'right' if row['right'] else 'WRONG'} {row['error']:.2e}, "
        f"{'equal' if row['replays_equal'] else 'DIFFERENT'} replays, {row.get('ms')} ms, first answer {row['first_answer_s']} s"
    )
    return "\n".join([head, *[str(row[key]) for key in ("first_wrong", "kernels") if key in row]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(fill.names()))
    parser.add_argument("--precisions", default="f32,f16")
    parser.add_argument("--cases", type=int, default=1, help="sizes of each model, from the first")
    parser.add_argument("--sizes", help="instead: batch=32,seq=384")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--kernels", type=int, default=6, help="slowest kernels to show")
    parser.add_argument("--fixed", action="store_true", help="compile for these sizes alone, as torch.compile does")
    parser.add_argument("--bisect", action="store_true", help="look for the first wrong step of a wrong model")
    parser.add_argument("--out", help="one JSON line for each case")
    arguments = parser.parse_args()
    for model in arguments.models.split(","):
        words = [word.split("=") for word in (arguments.sizes or "").split(",") if word]
        given = [{name: int(size) for name, size in words}] if words else []
        for sizes in given or fill.cases(model)[: arguments.cases]:
            for precision in arguments.precisions.split(","):
                row = run(model, sizes, precision, arguments)
                print(show(row), flush=True)
                tell("run on a GPU", row, arguments.out)


if __name__ == "__main__":
    main()
