#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Archives of the zoo's models, written where torch exports them and compared on a machine that may have no torch.

    ./x python tests/torch/zoo_archives.py write FOLDER [NAME...]
    ./x python tests/torch/zoo_archives.py judge FOLDER [--device nvidia:0] [--jobs 8] [--out FILE]

`write` makes a folder for each model, with the archive, the inputs of three batches and lengths, and eager's answers.
`judge` compiles each archive once, for all its sizes, and compares the answers with eager's. An answer is right within
1e-4 of the greatest element. The command line must give the same bits. An older torch exports fewer of the models, so
their archives come from a newer torch.
"""
import argparse
import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# Appended last, because bench has a module named zoo too.
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import machine
from places import BUILD

MOST_APART = 1e-4
COMMAND = os.environ.get("WEFT_COMMAND", str(BUILD / "bin/weft"))


def write(name, root):
    """Writes one model's archive, inputs and answers to a folder in `root`, and returns that folder."""
    import torch
    import zoo

    folder = root / name.replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    model, inputs, shapes, sizes = zoo.loaded(name, "cpu")
    zoo.spread(model, inputs(2, sizes[0][1]))
    with torch.no_grad():
        torch.export.save(torch.export.export(model, inputs(2, zoo.LENGTHS[1]), dynamic_shapes=shapes, strict=False), folder / "m.pt2")
        for k, size in enumerate(sizes):
            given = inputs(*size)
            np.savez(folder / f"case_{k}.npz", *[x.numpy() for x in given], wanted=model(*given).numpy())
    return folder


def cases(folder):
    """Yields the inputs and the wanted answer of each size."""
    for file in sorted(folder.glob("case_*.npz")):
        with np.load(file) as arrays:
            yield [arrays[f"arr_{i}"] for i in range(len(arrays.files) - 1)], arrays["wanted"]


def first(answers):
    return np.asarray(answers[0] if isinstance(answers, tuple) else answers)


def by_command_line(archive, run, inputs, options):
    """Returns the first answer of the command line to arrays of numpy; `run` is the compiled archive, which names the
    ports. Raises CalledProcessError if the command fails."""
    with tempfile.TemporaryDirectory() as place:
        words = [COMMAND, "run", archive, "--output", f"{run.outputs[0].name}={place}/y.npy"]
        words += [word for key, value in options.items() for word in (f"--{key}", str(value))]
        for port, x in zip((p for p in run.inputs if not p.has_default), inputs, strict=True):
            np.save(Path(place, f"{port.name}.npy"), x)
            words += ["--input", f"{port.name}={place}/{port.name}.npy"]
        subprocess.run(words, check=True, capture_output=True, text=True)
        return np.load(Path(place, "y.npy"))


def judge(folder, device):
    """Returns {"name", "apart": the largest error relative to the largest element, "bits": whether the command line
    gives the same bits}."""
    import weft

    options = {"device": device, "threads": 1}
    run = weft.compile(folder / "m.pt2", **options)
    found = {"name": folder.name, "apart": 0.0, "bits": True}
    for inputs, wanted in cases(folder):
        got = first(run(*inputs))
        assert got.shape == wanted.shape, f"{folder.name}: {got.shape}, not {wanted.shape}"
        found["apart"] = max(found["apart"], float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)))
        found["bits"] &= np.array_equal(by_command_line(folder / "m.pt2", run, inputs, options), got, equal_nan=True)
    return found


def judge_all(root, device, jobs):
    """Runs `judge` for all folders. A model that raises an error counts as not right."""
    folders = sorted(file.parent for file in root.glob("*/m.pt2"))
    rows = []
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for folder, task in [(folder, pool.submit(judge, folder, device)) for folder in folders]:
            try:
                rows.append(task.result())
            except Exception as error:
                rows.append({"name": folder.name, "apart": float("inf"), "bits": False, "error": str(error)[:300]})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("write", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", help="a file of bench/results")
    args = parser.parse_args()
    if args.verb == "write":
        import zoo

        with multiprocessing.get_context("spawn").Pool(args.jobs, zoo.prepare, maxtasksperchild=6) as pool:
            pool.starmap(write, [(name, args.folder) for name in args.names or zoo.names() if args.names or name.startswith("transformers/")])
        return 0
    rows = judge_all(args.folder, args.device, args.jobs)
    wrong = [row for row in rows if row["apart"] > MOST_APART or not row["bits"]]
    for row in wrong:
        print(row)
    counts = {"models": len(rows), "archive_right": sum(row["apart"] <= MOST_APART for row in rows),
              "command_equal_bits": sum(row["bits"] for row in rows), "worst_apart": max(row["apart"] for row in rows)}
    of = {"of": "transformers", "device": args.device, "type": "f32", "archives": "written elsewhere"}
    machine.tell(machine.result("models of PyTorch", of, counts, machine=machine.of_device(args.device)), args.out)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
