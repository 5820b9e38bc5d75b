#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""replay.py FOLDER [--graphs N] [--objects] [--keep]: shows that a change leaves plans and kernels as they were.

The first call, before the change, writes the bench models and N random graphs into FOLDER/models. It compiles each for
six chips and two precisions and writes the plans into FOLDER/before (weft-plan prints steps, buffers and kernel
sources). Every later call compiles the same models into FOLDER/after and prints where the two differ; exit code 1 if
they do. --objects compares the machine code of kernels too, for changes of the kernel headers; it compiles every kernel
and takes long. --keep makes the result the new FOLDER/before, after an intended change. WEFT_BUILD names another build
than build/release.
"""

import argparse
import concurrent.futures
import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release"))
CHIPS = ["cpu:x86-64-v3", "cpu:x86-64-v4+avx512bf16+avx512vbmi+avx512vnni",
         "cpu:x86-64-v4+amx-bf16+amx-int8+amx-tile+avx512bf16+avx512vbmi+avx512vnni",
         "amd:gfx1100", "amd:gfx942", "nvidia:sm_90a"]
PRECISIONS = ["f32", "bf16"]
FIRST_SEED = 1_000_000
SHOWN_LINES = 12


def make_models(folder, graphs):
    """Writes the models to compile, which are the same for every call, into the folder."""
    sys.path[:0] = [str(ROOT / "bench" / "models"), str(ROOT / "tests" / "random_graphs"), str(BUILD / "python")]
    import fill
    import graphs as random_graphs

    folder.mkdir(parents=True)
    for name in fill.names():
        fill.write(name, folder / f"{name}.onnx")
    for seed in range(FIRST_SEED, FIRST_SEED + graphs):
        drawing = random_graphs.draw_graph(seed)
        model = drawing.model(random_graphs.open_sizes(drawing))
        (folder / f"seed{seed}.onnx").write_bytes(model.SerializeToString())


def compile_model(model, precision, target, objects):
    command = [BUILD / "bin/weft-plan", model, *CHIPS, "--precision", precision, *(["--objects"] if objects else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout if done.returncode >= 0 else f"{done.stdout}\nended by signal {-done.returncode}\n"
    target.write_text(text + done.stderr)


def compile_all(models, folder, objects):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = [
            pool.submit(compile_model, model, precision, folder / f"{model.stem}.{precision}.txt", objects)
            for model in sorted(models.glob("*.onnx"))
            for precision in PRECISIONS
        ]
        for job in jobs:
            job.result()


def compare(before, after):
    """Prints the first different lines of each text that changed; returns the names of these texts."""
    names = sorted({path.name for folder in (before, after) for path in folder.glob("*.txt")})
    different = []
    for name in names:
        texts = [(folder / name).read_text() if (folder / name).exists() else "" for folder in (before, after)]
        if texts[0] == texts[1]:
            continue
        different.append(name)
        print(f"{name} differs:")
        lines = difflib.unified_diff(*(text.splitlines() for text in texts), "before", "after", n=1, lineterm="")
        for _, line in zip(range(SHOWN_LINES), lines):
            print(f"  {line[:200]}")
    print(f"{len(names) - len(different)} of {len(names)} are equal")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--graphs", type=int, default=300)
    parser.add_argument("--objects", action="store_true")
    parser.add_argument("--keep", action="store_true")
    words = parser.parse_args()
    models, before, after = (words.folder / name for name in ("models", "before", "after"))
    if not models.exists():
        make_models(models, words.graphs)
    if not before.exists():
        compile_all(models, before, words.objects)
        print(f"{len(list(before.iterdir()))} plans are kept in {before}")
        return 0
    compile_all(models, after, words.objects)
    different = compare(before, after)
    if words.keep:
        shutil.rmtree(before)
        after.rename(before)
    return 1 if different and not words.keep else 0


if __name__ == "__main__":
    sys.exit(main())
