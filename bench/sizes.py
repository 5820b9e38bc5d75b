# SPDX-License-Identifier: Apache-2.0
"""Measures the sizes of Weft's libraries and of the bench models as saved programs for this processor, with the working
memory of one run.

  ./x python bench/sizes.py [--models resnet50,bert_base] [--out results.jsonl]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
import fill
import machine

BUILD = Path(os.environ.get("WEFT_BUILD", machine.ROOT / "build/release"))
LIBRARIES = ("libweft.so", "libweft-codegen.so", "libweft-onnxruntime.so", "libmigraphx_c.so.3")


def mib(path):
    return Path(path).stat().st_size / 2**20


def weft(*words):
    subprocess.run([str(BUILD / "bin/weft"), *map(str, words)], check=True, capture_output=True)


def program(model):
    """Returns sizes of the saved program, of its model and of the memory of a run, at the model's first sizes."""
    path, sizes = fill.cached(model), fill.cases(model)[0]
    at = [word for symbol, size in sizes.items() for word in ("--at", f"{symbol}={size}")]
    with tempfile.TemporaryDirectory() as folder:
        saved, figures = Path(folder, "m.weft"), Path(folder, "perf.json")
        weft("compile", path, "-o", saved, "--device", "cpu")
        weft("perf", saved, *at, "-n", 1, "--threads", 1, "--json", figures)
        working = json.loads(figures.read_text())["arena_bytes"] / 2**20
        return {"mib": mib(saved), "model_mib": mib(path), "working_mib": working}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=fill.names())
    parser.add_argument("--out")
    arguments = parser.parse_args()
    for name in LIBRARIES:
        machine.tell(machine.result("size of a file", {"file": name}, {"mib": mib(BUILD / "lib" / name)}), arguments.out)
    for model in arguments.models:
        machine.tell(machine.result("size of a file", {"file": f"{model}.weft"}, program(model)), arguments.out)


if __name__ == "__main__":
    main()
