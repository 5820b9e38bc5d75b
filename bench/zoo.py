# SPDX-License-Identifier: Apache-2.0
"""Times networks that are not among the bench models. Weft and the other engines run alternately.

  python bench/zoo.py [--half judging|fitted|all] [--only NAMES] [--batches 1,8] [--engines weft,onnxruntime,openvino]
  python bench/zoo.py --fresh 2026-11-27   # the networks of FRESH["2026-11-27"], which were measured once before any tuning
  python bench/zoo.py --gpu                # beside the fastest of PyTorch's modes on an NVIDIA GPU, 16-bit floats
  python bench/zoo.py --gpu --batches 8 --jobs 10   # ten processes compile ahead

On a CPU the engines of peers.py run with sizes bound, on one thread; `x cpu` is Weft's processor time divided by the
peer's. The summary takes the faster peer of each network. On a GPU, Weft reads each network from a `.pt2` file of
torch.export, and the times are measured on the device. Needs torch, torchvision, timm, transformers and, for the export
to ONNX, onnxscript. The answer of each network is compared with PyTorch's in f32.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
import numpy as np
import torch
import zoo_networks as zoo
from engines import Job
from machine import keep, load, result
from peers import Race, figures, show

HALVES = {"fitted": zoo.FITTED, "judging": zoo.JUDGING, "all": list(zoo.ZOO)}
TOLERANCE = {"weft": 1e-3, "weft_bf16": 0.1}
GPU_TOLERANCE = 0.03


def distance(y, r):
    """Returns the relative error in the 2-norm."""
    y, r = np.asarray(y, np.float64), np.asarray(r, np.float64)
    return float(np.linalg.norm(y - r) / max(np.linalg.norm(r), 1e-30))


def torch_answer(name, x, device="cpu"):
    with torch.no_grad():
        return zoo.module(name).to(device)(x.to(device)).cpu().numpy()


def on_cpu(name, batch, arguments, caches):
    """Returns the first engine's processor time divided by the better peer's. Returns None if nothing could be
    compared, infinity if the first engine's answer is wrong."""
    path, feeds, sizes = str(zoo.exported(name)), {"x": zoo.inputs(name, batch).numpy()}, {"batch": batch}
    print(f"{name} batch={batch}  load {load()}", flush=True)
    race = Race(arguments.engines, lambda engine: Job(engine, path, 1, sizes), feeds, caches, cold=False)
    first = next(iter(race.workers), None)
    if first != arguments.engines[0]:
        race.close()
        return None
    error = distance(race.workers[first].outputs()["y"], torch_answer(name, zoo.inputs(name, batch)))
    measured = figures(race, race.run(arguments.rounds, arguments.seconds))
    race.close()
    show(measured)
    right = error < TOLERANCE.get(first, 1e-3)
    print(f"    relative error to torch {error:.1e}{'' if right else ', WRONG'}", flush=True)
    of = {"model": name, "sizes": sizes, "threads": 1, "engine": first}
    if arguments.fresh:
        of["drawn"] = arguments.fresh
    values = measured.pop(first) | {"error": error, "rounds": arguments.rounds, "load": load()}
    if arguments.out:
        keep(result("zoo on a CPU", of, values, measured), arguments.out)
    return max((peer["cpu_ratio"] for peer in measured.values()), default=None) if right else float("inf")


def exported_program(name, folder):
    """Writes a network as a `.pt2` file, unless that file exists; returns its path and the name of its input."""
    network, batch = zoo.module(name), torch.export.Dim("batch", max=1024)
    is_only = isinstance(network, zoo.Only)
    path = Path(folder, f"{name}.pt2")
    if not path.exists():
        free = (({0: batch},),) if is_only else ({0: batch},)
        torch.export.save(torch.export.export(network, (zoo.inputs(name, 2),), dynamic_shapes=free, strict=False), path)
    return path, "values_0" if is_only else "x"


def prepare(name, batches, folder):
    """Exports a network, and compiles it by Weft and by PyTorch. The compiled kernels then are in their caches."""
    import gpu_peers

    torch.set_num_threads(2)
    gpu_peers.NETWORKS[name] = lambda size: as_half(name, size)
    for batch in batches:
        weft_program(name, batch, folder)
        gpu_peers.pytorch_ways(name, batch)


def weft_program(name, batch, folder):
    from weft_library import Program

    path, feed = exported_program(name, folder)
    feeds = {feed: zoo.inputs(name, batch).numpy()}  # binds the batch: torch gives that size a name of its own
    return Program(path, 0, "f16", {}, "gpu", {feed: feeds[feed].shape}), feeds


def on_gpu(name, batch, arguments, folder):
    import gpu
    import gpu_peers

    torch.backends.cudnn.allow_tf32 = False
    gpu_peers.NETWORKS[name] = lambda size: as_half(name, size)
    try:
        program, feeds = weft_program(name, batch, folder)
        answer = next(iter(program.run(feeds).values()))
        error = distance(answer, torch_answer(name, zoo.inputs(name, batch), "cuda"))
        row = gpu_peers.network_modes(name, batch, gpu_peers.on_device(program, feeds))
    except RuntimeError as problem:
        print(f"{name} batch={batch}: {problem}", flush=True)
        return float("inf")
    row["error"] = error
    row["ratio"] = row["ms"] / min(row[key] for key in ("eager_ms", "graph_ms", "compile_graph_ms") if key in row)
    gpu.tell("zoo beside PyTorch on a GPU", row, arguments.out)
    return row["ratio"] if error < GPU_TOLERANCE else float("inf")


def as_half(name, batch):
    network, x = zoo.module(name).half().cuda(), zoo.inputs(name, batch).cuda()
    if x.dim() == 4:
        network, x = network.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    return network, x.half() if x.is_floating_point() else x


def summary(ratios):
    ahead = sum(ratio < 1 for ratio in ratios.values())
    print(f"ahead of the better peer on {ahead} of {len(ratios)}", end="")
    if ratios and all(0 < ratio < float("inf") for ratio in ratios.values()):
        print(f", geometric mean {statistics.geometric_mean(ratios.values()):.3f}", end="")
    behind = sorted(((ratio, case) for case, ratio in ratios.items() if ratio >= 1), reverse=True)
    print("".join(f"\n  {case} {ratio:.3f}" for ratio, case in behind))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    comma = lambda text: text.split(",")
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--fresh", choices=zoo.FRESH, help="the networks drawn on that day, instead of the forty")
    parser.add_argument("--only", type=comma, help="networks by name")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8])
    parser.add_argument("--engines", type=comma, default=["weft", "onnxruntime", "openvino"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long an engine runs in a round; one run at least")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="with --gpu: processes that export and compile, before the measurements")
    parser.add_argument("--out", help="append a row of figures for each case to this file")
    return parser.parse_args()


def main():
    arguments, ratios = parse(), {}
    measure = on_gpu if arguments.gpu else on_cpu
    names = arguments.only or zoo.FRESH.get(arguments.fresh, HALVES[arguments.half])
    with tempfile.TemporaryDirectory(prefix="weft-zoo-") as folder:
        if arguments.gpu and arguments.jobs > 1:
            with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
                pool.starmap(prepare, [(name, arguments.batches, folder) for name in names], chunksize=1)
        for name in names:
            for batch in arguments.batches:
                ratio = measure(name, batch, arguments, folder)
                if ratio is not None:
                    ratios[f"{name} batch={batch}"] = ratio
    summary(ratios)


if __name__ == "__main__":
    main()
