# SPDX-License-Identifier: Apache-2.0
"""Runs networks whose work depends on their data, and times them beside PyTorch: detectors with NonMaxSuppression
inside, silero-vad, a decoder of Whisper in a Loop, BeamSearch, and an LSTM of free length.

  python bench/gpu_control.py [--only ssdlite,fasterrcnn,silero,whisper,beams,lstm] [--device gpu] [--precisions f32,f16]
                              [--silero FOLDER] [--tiny] [--pytorch results.jsonl,...] [--out results.jsonl]

Weft's answers are compared with its own on the CPU in f32 (`error`); those with onnxruntime's on the CPU
(`error_onnxruntime`) and, in f32, with PyTorch's (`error_pytorch`). An error is a relative distance of numbers, a share
of tokens that differ, or a share of boxes without a partner.

All times are wall times of calls that return when the answer is there, medians of rounds in which Weft and the modes of
PyTorch take turns. On a GPU, inputs and outputs stay on the device. PyTorch computes without TF32. With
--pytorch, PyTorch's times are those of rows in result files. The weights of silero-vad are its own; --silero names the
folder silero_vad/data of its package. All others are random.

Needs torch, torchvision, transformers, onnx, onnxruntime; WEFT_LIBRARY names libweft.so.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import gpu
import numpy as np
import torch
from weft_library import OnDevice, Program

import control_networks as networks  # isort: skip  (gpu puts its folder on the search path)

DATA = gpu.machine.ROOT / "build/real_models/silero-vad==6.2.3/silero_vad/data"



def arrays(answer):
    """Returns copies of the outputs of a run as numpy arrays."""
    answer = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, (tuple, list)) else [answer]
    return [np.array(x.float().cpu() if x.dtype == torch.half else x.cpu()) if isinstance(x, torch.Tensor) else np.array(x) for x in answer]


def wall_ms(run, wait, seconds):
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def kept_times(row, files):
    """Returns PyTorch's times of the newest row of these result files about the same case."""
    rows = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    mine = [kept for kept in rows if all(row[key] == value for key, value in kept["of"].items())]
    return max(mine, key=lambda kept: kept["date"])["peers"]["pytorch"]


def row_of(case, name, precision, arguments, programs):
    def program(device, precision):
        key = case.path, device, precision
        if key not in programs:
            programs[key] = Program(case.path, 0, precision, {}, device)
        return programs[key]

    place = networks.Place(arguments.device, precision)
    cuda = place.device == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    row = {"network": name, "sizes": case.sizes, "precision": precision, "device": arguments.device}
    ours = program(arguments.device, precision)
    want = arrays(program("cpu", "f32").run(case.feeds))
    on_device = OnDevice(ours, case.feeds, want) if cuda else None
    run = on_device.run if cuda else lambda: ours.run(case.feeds)
    answer = on_device.answer if cuda else lambda: arrays(run())
    got = answer()
    row |= case.judge(got, want)
    row["error_onnxruntime"] = case.judge(got, gpu.expected(case.path, case.feeds))["error"]
    runs = {"ms": run}
    torch._dynamo.reset()  # otherwise PyTorch compiles later sizes of a network for any size
    for mode, prepare in (case.modes(place) if not arguments.pytorch else {}).items():
        try:
            runs[mode] = prepare()
            theirs = arrays(runs[mode]())
            if mode == "eager_ms" and precision == "f32":
                row["error_pytorch"] = case.judge(got, theirs)["error"]
            runs[mode]()
        except Exception as problem:  # some networks fail in some modes
            runs.pop(mode, None)
            row["torch_failure"] = f"{mode}: {problem}"[:300]
    turns = [{mode: wall_ms(one, wait, arguments.seconds) for mode, one in runs.items()} for _ in range(arguments.rounds)]
    row["replays_equal"] = all(map(np.array_equal, got, answer()))
    row["right"] = row["replays_equal"] and all(
        row.get(key, 0) <= case.limits[precision] for key in ("error", "error_onnxruntime", "error_pytorch"))
    if arguments.pytorch:
        row |= kept_times(row, arguments.pytorch)
    return row | {mode: statistics.median(turn[mode] for turn in turns) for mode in runs}


def parse():
    comma = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=comma, default=list(networks.NETWORKS))
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--precisions", type=comma)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long a mode runs in a round; one run at least")
    parser.add_argument("--silero", type=Path, default=DATA)
    parser.add_argument("--pytorch", type=comma, help="result files with PyTorch's times, which are not measured again")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for emulated GPUs")
    parser.add_argument("--out")
    return parser.parse_args()


def main():
    arguments, wrong = parse(), []
    sizes = argparse.Namespace(**vars(arguments), **(networks.TINY if arguments.tiny else networks.FULL))
    torch.backends.cudnn.allow_tf32 = False
    for name in arguments.only:
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory(prefix="weft-control-") as folder:
            programs = {}
            for case in networks.NETWORKS[name](name, sizes, folder):
                for precision in arguments.precisions or (["f32"] if arguments.device == "cpu" else ["f32", "f16"]):
                    row = row_of(case, name, precision, arguments, programs)
                    gpu.tell("network with control flow", row, arguments.out)
                    if not row["right"]:
                        wrong.append(f"{name} {case.sizes} {precision}")
    if wrong:
        raise SystemExit("wrong: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
