#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares models of timm and transformers with random weights on Weft with torch in eager mode.

    ./x python tests/torch/zoo.py [--jobs 2] [--device cpu] [--precision f16] [--json FILE] [--out FILE] [NAME...]

One model of each module of timm, and 60 architectures of transformers in small sizes. torch.export makes one archive
of each, with an open batch (and length). Weft compiles it once and answers for batches 1, 3 and 8 and three lengths.
Answers are within 1e-4 of the greatest element of eager's answer, or have at most twice eager's distance from torch's
answer in f64 (`as_torch` counts these). The command line, which runs without torch, gives the same bits. torch.compile
compiles one graph for all batches from 2 to 8, with no node in eager. --batches names other batches, for example
only one for a slow emulated device. On an NVIDIA GPU torch runs on the GPU too, in f32 without TF32. With --precision
f16 or bf16 Weft computes in 16 bits, and answers may differ from those of f32 by 2 % or 5 % of the greatest element. A
larger difference is allowed only up to that of torch's own answers in this type. --out appends a row for timm and one
for transformers to a file of bench/results; no model begins after --limit seconds.
"""
import argparse
import io
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("TORCH_LOGS", "-all")
sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import machine
import numpy as np
import torch
import vision
from torch.export import Dim
from zoo_archives import by_command_line, first
from zoo_judge import RELATIVE, Judge, apart, in_eager
from zoo_models import NAMES, PORTS, SMALLER, SMALLEST, TEXTS, TIMM, configured

import weft
import weft.torch

BATCHES, LENGTHS = (1, 3, 8), (9, 16, 24)


def names(given=()):
    """Returns all models, or those named by `given` (with or without the package), in the order of `given`."""
    every = [f"timm/{name}" for name in sorted(TIMM)] + [f"transformers/{name}" for name in sorted(TEXTS)]
    return [name for one in given for name in every if one in (name, name.partition("/")[2])] if given else every


class Answer(torch.nn.Module):
    """Calls the model with inputs by name and with fixed options; returns its first tensor."""

    def __init__(self, model, ports=(), **options):
        super().__init__()
        self.model, self.options = model, options
        self.ports = [NAMES.get(port, port) for port in ports]

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.ports, inputs)), **self.options) if self.ports else self.model(*inputs)
        return out if isinstance(out, torch.Tensor) else out[0]


def loaded(name, device, batches=BATCHES):
    """Returns the model, a function from batch and length to inputs, dynamic shapes, and the batches and lengths to
    try. On the CPU and on AMD GPUs (emulated) the largest models get smaller pictures, if they accept any size."""
    torch.manual_seed(1)
    kind, _, rest = name.partition("/")
    if kind == "timm":
        import timm

        model_name, size = TIMM[rest]
        smaller = SMALLEST if device.startswith("amd") else SMALLER if device in ("cpu", "ref") else {}
        size = smaller.get(rest, size)
        model = timm.create_model(model_name, pretrained=False, num_classes=10).eval()
        batch = Dim("batch", min=1, max=64)
        return Answer(model), lambda b, _: (torch.randn(b, *size),), (({0: batch},),), [(b, 0) for b in batches]
    config, kind_of, ports, options = TEXTS[rest]
    model = kind_of(configured(rest, config)).eval()
    axes = {"b": Dim("batch", min=1, max=64), "t": Dim("tokens", min=2, max=64)}
    shapes = (tuple({i: axes[a] for i, a in enumerate(PORTS[port][0])} for port in ports),)
    has_length = any("t" in PORTS[port][0] for port in ports)
    return (Answer(model, ports, **options), lambda b, t: tuple(PORTS[port][1](b, t) for port in ports), shapes,
            list(zip(batches, itertools.cycle(LENGTHS if has_length else (0,)))))


def spread(model, inputs):
    """Draws weights that make answers depend on inputs: in many models the last layers are initialised with zeros.
    Batch norms take the statistics of `inputs`, as in a trained model; without them values double in each block until
    softmaxes and f16 overflow. Answers for `inputs` are not compared, because means of values that were normalised by
    their own statistics cancel."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel() and not parameter.any():
                parameter.normal_(0, 0.02)
        for norm in norms:
            norm.train().momentum = 1.0
        if norms:
            model(*inputs)
        for norm in norms:
            norm.eval()


def command_line(file, run, inputs, options):
    """Returns why the command does not give the same bits; empty if it does."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "m.pt2")
        archive.write_bytes(file)
        try:
            answer = by_command_line(archive, run, [x.numpy() for x in inputs], options)
        except subprocess.CalledProcessError as error:
            return error.stderr.strip().partition("\n")[0]
        return "" if np.array_equal(answer, first(run(*inputs)), equal_nan=True) else "other bits"


def checked(name, device="cpu", precision="f32", with_compile=True, batches=BATCHES):
    """Returns a dictionary with "name", "type", "archive" ("right" or why not), "command", "compile", "bits" ("equal",
    or how far the archive's answers are from those of torch.compile), "apart" and "seconds". Where answers in f64
    decide, it also has "times", "compile_times" and "torch_from_f64"; in 16 bits "torch_apart" (see Judge)."""
    begin, found, got = time.time(), {"name": name, "type": precision}, []
    place = "cpu" if device in ("cpu", "ref") or device.startswith("amd") else "cuda"
    options = {"device": device, "threads": 1} | ({} if precision == "f32" else {"precision": precision})
    model, inputs, shapes, sizes = loaded(name, device, batches)
    spread(model, inputs(2, sizes[0][1]))
    given = [inputs(2, sizes[0][1]), *[inputs(*size) for size in sizes]]
    file = io.BytesIO()
    try:
        with torch.no_grad():
            torch.export.save(torch.export.export(model, inputs(2, LENGTHS[1]), dynamic_shapes=shapes, strict=False), file)
    except Exception as error:
        found["archive"] = f"not exported: {type(error).__name__}: {error}"[:300]
    judge = Judge(model, given, place, precision)
    if "archive" not in found:
        found |= through_archive(file.getvalue(), judge, options, got)
    if with_compile:
        found |= through_compile(model, judge, [i for i, size in enumerate([(2, 0), *sizes]) if size[0] != 1], options, got)
    if not judge.is_f32:
        found["torch_apart"] = judge.apart
    elif "exact" in vars(judge):
        found["torch_from_f64"] = judge.exact[1]
    return {**found, "seconds": round(time.time() - begin, 1)}


def through_archive(file, judge, options, got):
    """Returns "archive", "command", "apart" and "times" of checked(); the answers are added to `got`."""
    try:
        run = weft.compile(file, **options)
        for x in judge.given[1:]:
            y = run(*x)
            got.append(torch.as_tensor(y[0] if isinstance(y, tuple) else y))
        worst, what, times = judge.verdict(got, range(1, len(judge.given)))
        row = {"apart": worst, "archive": what} | ({} if times is None else {"times": times})
        return row | {"command": command_line(file, run, judge.given[min(2, len(got))], options) or "right"}
    except weft.Error as error:
        return {"archive": str(error)[:400]}


def through_compile(model, judge, kept, options, of_archive):
    """Returns "compile", "compile_times" and "bits" of checked(). `kept` are the indices of inputs with more than one
    item, because torch compiles batch 1 separately."""
    torch._dynamo.reset()
    weft.torch.placements.clear()
    fast = torch.compile(model, backend="weft", dynamic=True, options=options)
    try:
        got = in_eager(fast, [judge.given[i] for i in kept], judge.place)
    except Exception as error:
        return {"compile": f"{type(error).__name__}: {error}"[:300]}
    _, what, times = judge.verdict(got, kept)
    other = max((apart(y, of_archive[i - 1]) for y, i in zip(got[1:], kept[1:]) if of_archive), default=None)
    row = ({} if other is None else {"bits": other or "equal"}) | ({} if times is None else {"compile_times": times})
    left = [str(p) for p in weft.torch.placements if p.on_weft < p.total]
    if what != "right" or left:
        return {"compile": left[0] if left else what, **row}
    graphs = len(weft.torch.placements)
    return {"compile": "right" if graphs == 1 else f"right, {graphs} graphs", **row}


def prepare():
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    warnings.simplefilter("ignore")
    vision.define_operators()


def judged(task):
    try:
        return checked(*task)
    except Exception as error:
        return {"name": task[0], "archive": f"{type(error).__name__}: {error}"[:300]}


def summary(rows):
    found = {"models": len(rows)}
    for what, column in (("archive_right", "archive"), ("command_equal_bits", "command"), ("torch_compile_right", "compile")):
        if any(column in row for row in rows):
            found[what] = sum(str(row.get(column, "")).startswith("right") for row in rows)
    if "torch_compile_right" in found:
        found["torch_compile_one_graph"] = sum(row.get("compile") == "right" for row in rows)
        found["torch_compile_equal_bits"] = sum(row.get("bits") == "equal" for row in rows)
    found["not_exported_by_torch"] = sum(str(row.get("archive")).startswith("not exported") for row in rows)
    right = [row for row in rows if row.get("archive") == "right"]
    far = [row for row in right if row["apart"] > RELATIVE[row.get("type", "f32")]]
    found |= {"as_torch": len(far)} if far else {}
    times = [row[key] for row in rows for key in ("times", "compile_times") if key in row]
    found |= {"worst_times_torch": max(times)} if times else {}
    found["worst_apart"] = max((row["apart"] for row in right if row not in far), default=0.0)
    return found


def results(pool, tasks, limit):
    """Yields a row for each model that is done within `limit` seconds."""
    end, found = time.monotonic() + limit, pool.imap_unordered(judged, tasks)
    while (left := end - time.monotonic()) > 0:
        try:
            yield found.next(min(left, 1e6))
        except (StopIteration, multiprocessing.TimeoutError):
            return


def main():
    import transformers

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="f32", choices=RELATIVE)
    parser.add_argument("--no-compile", action="store_true", help="archives only")
    parser.add_argument("--batches", type=lambda text: tuple(map(int, text.split(","))), default=BATCHES)
    parser.add_argument("--only", default="", help="timm or transformers")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--json", help="a row for each model")
    parser.add_argument("--out", help="a file of bench/results")
    args = parser.parse_args()
    rows, chosen = [], [name for name in names(args.names) if name.startswith(args.only)]
    tasks = [(name, args.device, args.precision, not args.no_compile, args.batches) for name in chosen]
    with multiprocessing.get_context("spawn").Pool(args.jobs, prepare, maxtasksperchild=4) as pool:
        for row in results(pool, tasks, args.limit):
            rows.append(row)
            print(json.dumps(row), flush=True)
            if args.json:
                Path(args.json).write_text("\n".join(map(json.dumps, rows)))
    part = {} if args.batches == BATCHES else {"batches": ",".join(map(str, args.batches))}
    part |= {"chosen": ", ".join(args.names)} if args.names else {}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for kind in ("timm", "transformers"):
        of_kind = [row for row in rows if row["name"].startswith(kind)]
        if of_kind:
            counts = summary(of_kind) | {"not_judged": sum(name.startswith(kind) for name in chosen) - len(of_kind)}
            machine.tell(machine.result("models of PyTorch", {"of": kind, "device": args.device, "type": args.precision, **part, **versions}, counts, machine=machine.of_device(args.device)), args.out)
    return 1 if any(row["archive"] != "right" for row in rows) or len(rows) < len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
