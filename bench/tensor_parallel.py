# SPDX-License-Identifier: Apache-2.0
"""Splits a Llama-style decoder with random f16 weights over several devices. Compares its answers with those of one
device and measures the milliseconds of a token.

  python bench/tensor_parallel.py --devices gpu:0,gpu:1 [--devices gpu:0,gpu:1,gpu:2,gpu:3] [--size 1b] [--batches 1,64]
         [--past 512] [--room 2048] [--encoder] [--out results.jsonl]
  python bench/tensor_parallel.py --devices cpu,cpu --size tiny --room 64 --past 8      # a trial on the CPU

The first device of the first list is also measured alone. Key-value caches are donated, so each device keeps the caches
of its heads. --encoder adds bert_base of bench/models, in --precision (f16). WEFT_COMMAND names the command line;
needs the package weft, onnx and numpy.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import gpu
import gpu_decoder
import machine
import numpy as np
import weft

LIMIT = 3e-2  # largest error relative to the norm: several devices add f16 numbers in another order


def decoder_feeds(size, batch, past, room):
    return {name: np.repeat(array, batch, axis=0) for name, array in gpu_decoder.feeds(size, past, room).items()}


def caches(size):
    return {f"past_{kind}_{i}": f"present_{kind}_{i}" for i in range(gpu_decoder.SIZES[size][1]) for kind in "kv"}


def spread(model, feeds):
    """Returns the inputs of a program. An input that is split over the ranks is cut along its axis of heads."""
    parts = {}
    for port in model.inputs:
        name, _, rank = port.name.partition("@")
        count = sum(other.name.partition("@")[0] == name for other in model.inputs)
        parts[port.name] = np.array(np.split(feeds[name], count, axis=1)[int(rank)] if rank else feeds[name])
    return parts


def figures(path, device, options, feeds, first):
    """Measures one program; returns (row, answer). The row has the milliseconds of a run and, unless `first` is None, the
    error relative to `first`, which is the answer of one device."""
    model = weft.compile(path, device=device, **options)
    inputs = spread(model, feeds)
    answer = next(iter(model.run({name: np.array(array) for name, array in inputs.items()}).values())).astype(np.float64)
    row = {} if first is None else {"error": gpu.distance(answer, first)}
    with tempfile.TemporaryDirectory() as folder:
        words = gpu.input_options(folder, inputs)
        words += [word for pair in options.get("donate", {}).items() for word in ("--donate", "=".join(pair))]
        words += [word for pair in options.get("symbols", {}).items() for word in ("--symbol", "{}={}".format(*pair))]
        on_device = [] if device.startswith("cpu") else ["--on-device"]
        report = Path(folder, "perf.json")
        words += ["--device", device, "--precision", options.get("precision", "f32"), *on_device, "--duration", "1", "--json", str(report)]
        done = subprocess.run([gpu.COMMAND, "perf", str(path), *words], capture_output=True, text=True)
        if done.returncode:
            return {"failure": done.stdout + done.stderr}, answer
        row["ms"] = round(json.loads(report.read_text())["latency_ms"]["median"], 5)
    return row | {"split": next((n for n in model.report()["notes"] if n.startswith("split over")), "")}, answer


def measure(what, path, lists, options, feeds, out):
    """Measures one device, then each list of devices; records a row for each list. Returns True if all answers are right."""
    one, answer = figures(path, lists[0].partition(",")[0], options, feeds, None)
    is_right = "failure" not in one
    for devices in lists:
        row, _ = figures(path, devices, options, feeds, answer)
        if "ms" in row and "ms" in one:
            row |= {"one_ms": one["ms"], "gain": round(one["ms"] / row["ms"], 3), "right": row["error"] < LIMIT}
        is_right &= row.get("right", False)
        subject = {**what, "devices": devices}
        print(subject, row, flush=True)
        where = None if devices.startswith("cpu") else machine.gpu()
        machine.tell(machine.result("split over devices", subject, row, machine=where), out)
    return is_right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", action="append", required=True, metavar="LIST")
    parser.add_argument("--size", choices=gpu_decoder.SIZES, default="1b")
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--past", type=int, default=512)
    parser.add_argument("--room", type=int, default=2048)
    parser.add_argument("--encoder", action="store_true")
    parser.add_argument("--precision", default="f16", help="of the encoder")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    is_right = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decoder.onnx")
        gpu_decoder.write_model(path, arguments.size, arguments.room)
        for batch in map(int, arguments.batches.split(",")):
            feeds = decoder_feeds(arguments.size, batch, arguments.past, arguments.room)
            options = {"donate": caches(arguments.size), "symbols": {"batch": batch, "room": arguments.room}}
            what = {"decoder": arguments.size, "batch": batch, "past": arguments.past, "room": arguments.room}
            is_right &= measure(what, path, arguments.devices, options, feeds, arguments.out)
    if arguments.encoder:
        import fill

        for sizes in fill.cases("bert_base")[:2]:
            what = {"network": "bert_base", "sizes": sizes, "precision": arguments.precision}
            options = {"precision": arguments.precision, "symbols": sizes}
            is_right &= measure(what, fill.cached("bert_base"), arguments.devices, options, fill.feeds("bert_base", sizes), arguments.out)
    raise SystemExit(not is_right)


if __name__ == "__main__":
    main()
