#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Weft with TensorFlow (oneDNN) and LiteRT (XNNPACK) on networks of keras.applications, as SavedModels and as
.tflite files, in f32 and in int8. The engines alternate.

    ./x python bench/tensorflow_models.py [--models MobileNetV2,EfficientNetB0,ResNet50] [--forms saved,lite,int8] [--threads 1]
                                   [--rounds 5] [--seconds 1] [--python PROGRAM] [--out FILE]

saved: the SavedModel, against TensorFlow. lite: the same network as .tflite, against LiteRT. int8: the int8 .tflite,
against LiteRT. Writes a row for each, in the form of bench/results/README.md, and prints the geometric mean of the
ratios. The networks are made on the first run and kept in $WEFT_BENCH_CACHE. TensorFlow is imported by the Python of
the tests (build/tensorflow, tests/tensorflow/requirements.txt) or by --python. For .tflite files that Python needs only
the package ai-edge-litert.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "tests/tensorflow")]

import machine
from engines import Job
from peers import Race, figures, show
from worker import Worker

MODELS = ["MobileNetV2", "EfficientNetB0", "ResNet50"]
FORMS = {"saved": ("", "tensorflow", "f32"), "lite": (".tflite", "litert", "f32"), "int8": ("_int8.tflite", "litert", "int8")}


def tensorflow():
    import judge  # needs pytest; not imported with --python

    return judge.environment()


def folder_of(name, python):
    """Returns the folder with the files of a network."""
    folder = Path(os.environ.get("WEFT_BENCH_CACHE", Path.home() / ".cache/weft-bench")) / "keras"
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([python, HERE / "models/keras_networks.py", folder, name], check=True)
    return folder


def answer(worker):
    return next(iter(worker.outputs().values())).astype(np.float64)


def distance(mine, theirs, kind):
    """Returns the largest difference of two answers: in quantisation steps for int8, otherwise relative to the largest
    number."""
    assert mine.shape == theirs.shape
    return float(np.abs(mine - theirs).max() / (1 if kind == "int8" else np.abs(theirs).max()))


def reference(job, feeds):
    """Returns the answer of LiteRT's reference kernels."""
    worker = Worker(job, feeds)
    try:
        return answer(worker)
    finally:
        worker.close()


def compare(name, form, arguments, python, caches):
    end, peer, kind = FORMS[form]
    path = folder_of(name, python) / f"{name}{end}"
    rng = np.random.default_rng(3)
    x = rng.random((1, 224, 224, 3)).astype(np.float32)
    feeds = {"x": x if kind == "f32" else (x * 255 - 128).astype(np.int8)}
    job = lambda engine: Job(engine, str(path), arguments.threads, python="" if engine == "weft" else str(python))
    race = Race(["weft", peer], job, feeds, caches, cold=False)
    try:
        if len(race.workers) < 2:
            sys.exit(f"{name} {form}: an engine failed")
        mine, theirs = (answer(race.workers[name]) for name in ("weft", peer))
        found = figures(race, race.run(arguments.rounds, arguments.seconds))
        found["weft"]["difference"] = distance(mine, theirs, kind)
        # LiteRT's optimised kernels round differently from its reference kernels. Also compares both engines with the reference ones.
        if kind == "int8":
            right = reference(job("litert_reference"), feeds)
            found["weft"]["to_reference_kernels"], found[peer]["to_reference_kernels"] = (distance(y, right, kind) for y in (mine, theirs))
    finally:
        race.close()
    print(f"{name} {form}")
    show(found)
    of = {"model": name, "form": "SavedModel" if form == "saved" else "tflite", "type": kind, "threads": arguments.threads, "load": machine.load()}
    values = found.pop("weft")
    machine.tell(machine.result("TensorFlow model on a CPU", of, values, peers=found), arguments.out)
    return found[peer]["cpu_ratio"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=MODELS)
    parser.add_argument("--forms", type=lambda text: text.split(","), default=list(FORMS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--python", type=Path, help="one that can import TensorFlow or ai_edge_litert")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    python = arguments.python or tensorflow()
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as caches:
        for form in arguments.forms:
            ratios = [compare(name, form, arguments, python, caches) for name in arguments.models]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{form}: processor time {mean:.3f} of {FORMS[form][1]}'s in geometric mean, worst {max(ratios):.3f}", flush=True)


if __name__ == "__main__":
    main()
