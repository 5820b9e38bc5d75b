# SPDX-License-Identifier: Apache-2.0
"""Checks the answers of the bench models on a GPU; prints one JSON line for each model and precision:

- batch 1 is compared with Weft's reference, and with torch in float64 on the GPU;
- batch 32 is compared with torch, and with 32 runs of batch 1;
- 100 replays of a graph must give equal bits;
- once for each model, in f32, a program with free sizes runs at random sizes. The line has the number of kernels that
  were compiled for these sizes, and the largest difference between GPU and CPU at two of the sizes.

  python bench/gpu_right.py [--models resnet50,...] [--precisions f32,f16] [--batch 32] [--sizes 50] [--out results.jsonl]

Needs torch with CUDA and onnx; WEFT_LIBRARY names libweft.so.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpu
import numpy as np
from weft_library import Program

import fill  # isort: skip  (gpu puts bench/models on the search path)

LIMITS = {"f32": 1e-5, "f16": 3e-2}
# The range of each symbol. height and width are in units of 32 pixels.
FREE = {"batch": (1, 8), "seq": (1, 256), "past": (0, 256), "height": (4, 16), "width": (4, 16)}


def copied(outputs):
    return {name: np.array(array) for name, array in outputs.items()}


def farthest(y, r):
    return max(gpu.distance(y[name], r[name]) for name in r)


def batch_axes(one, many):
    """Returns for each input the axis that is longer in `many` than in `one`, or None."""
    return {name: next((a for a in range(x.ndim) if x.shape[a] != many[name].shape[a]), None) for name, x in one.items()}


def part(arrays, axes, at):
    return {name: x if axes[name] is None else x.take([at], axes[name]) for name, x in arrays.items()}


def joined(parts, whole):
    """Concatenates the outputs of runs of batch 1 along the axis in which their sizes differ from those of `whole`."""
    joined = {}
    for name, all_of_it in whole.items():
        first = parts[0][name]
        axis = next((a for a in range(first.ndim) if first.shape[a] != all_of_it.shape[a]), 0)
        joined[name] = np.concatenate([p[name] for p in parts], axis)
    return joined


def in_float64(path, feeds):
    import torch
    import torch_graph

    outputs = torch_graph.Graph(path, torch.float64, "cuda").run(feeds)
    torch.cuda.empty_cache()
    return outputs


def one_model(model, precision, batch, device):
    path, sizes = fill.cached(model), fill.cases(model)[0]
    row = {"model": model, "precision": precision, "sizes": sizes, "batch": batch}
    one, many = fill.feeds(model, sizes), fill.feeds(model, sizes | {"batch": batch})
    axes = batch_axes(one, many)
    single = Program(path, 0, precision, sizes, device)
    first = copied(single.run(one))
    row["b1_to_ref"] = farthest(first, copied(Program(path, 0, "f32", sizes, "ref").run(one)))
    row["b1_to_float64"] = farthest(first, in_float64(path, one))
    row["replays_equal"] = sum(
        all(np.array_equal(first[name], array, equal_nan=True) for name, array in single.run(one).items())
        for _ in range(100)
    )
    whole = copied(Program(path, 0, precision, sizes | {"batch": batch}, device).run(many))
    row["batch_to_float64"] = farthest(whole, in_float64(path, many))
    apart = [copied(single.run(part(many, axes, at))) for at in range(batch)]
    row["batch_to_single_runs"] = farthest(whole, joined(apart, whole))
    row["right"] = row["replays_equal"] == 100 and all(
        row[key] < LIMITS[precision] for key in ("b1_to_float64", "batch_to_float64", "batch_to_single_runs")
    )
    return row


def random_sizes(model, count):
    """Yields the sizes of the model's first case, then `count` - 1 random sizes."""
    draw, symbols = random.Random(1), fill.cases(model)[0]
    for at in range(count):
        scale = {name: 32 if name in ("height", "width") else 1 for name in symbols}
        yield dict(symbols) if at == 0 else {name: draw.randint(*FREE[name]) * scale[name] for name in symbols}


def free_sizes(model, count, device):
    """Runs random sizes in a new process, because its log counts the kernels that are compiled after the first run."""
    code = f"import gpu_right; gpu_right.run_free({model!r}, {count}, {device!r})"
    environment = os.environ | {"WEFT_DEBUG": "2,codegen"}
    here = Path(__file__).parent
    run = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True)
    if run.returncode:
        return {"failure": (run.stdout + run.stderr)[-2000:]}
    after = run.stderr.split("sizes begin", 1)[1].split("sizes end", 1)[0]
    return json.loads(run.stdout.splitlines()[-1]) | {"compiles": after.count("compiled ")}


def run_free(model, count, device):
    path = fill.cached(model)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WEFT_CACHE_DIR"] = cache
        program = Program(path, 0, "f32", {}, device)
        all_sizes = list(random_sizes(model, count))
        program.run(fill.feeds(model, all_sizes[0]))
        print("sizes begin", file=sys.stderr, flush=True)
        start, kept = time.time(), []
        for at, sizes in enumerate(all_sizes):
            feeds = fill.feeds(model, sizes)
            outputs = program.run(feeds)
            if at in (1, 2):
                kept.append((sizes, feeds, copied(outputs)))
        seconds = time.time() - start
        print("sizes end", file=sys.stderr, flush=True)
        errors = [farthest(y, copied(Program(path, 0, "f32", sizes, "cpu").run(feeds))) for sizes, feeds, y in kept]
    row = {"model": model, "random_sizes": count, "to_cpu": max(errors, default=0), "seconds": round(seconds, 2)}
    print(json.dumps(row))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(fill.names()))
    parser.add_argument("--precisions", default="f32,f16")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sizes", type=int, default=50, help="random sizes of each model; 0: none")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--out")
    arguments = parser.parse_args()

    def rows(model):
        for precision in arguments.precisions.split(","):
            try:
                yield one_model(model, precision, arguments.batch, arguments.device)
            except Exception as problem:  # one failure must not stop the other cases
                yield {"model": model, "precision": precision, "failure": str(problem)[:2000]}
        if arguments.sizes:
            yield free_sizes(model, arguments.sizes, arguments.device)

    for model in arguments.models.split(","):
        for row in rows(model):
            gpu.tell("random sizes on a GPU" if "random_sizes" in row else "error on a GPU", row, arguments.out)


if __name__ == "__main__":
    main()
