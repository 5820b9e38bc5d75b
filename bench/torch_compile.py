#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures torch.compile with the backends "weft" and "inductor" on the networks of bench/models: how long the first
call takes, the overhead of a call, and the time of a call.

    ./x python bench/torch_compile.py [--only cold,overhead,calls] [--models resnet50,...] [--threads 1] [--rounds 7]
                                      [--seconds 0.3] [--device cpu] [--type f32] [--limit 500] [--out FILE]
                                      [--modes default,freezing]

- cold: from torch.compile to the first answer, in a new process without kernels on disk. "torch" traces the graph and
  runs it in eager mode.
- overhead: the time of a model of one small product called by torch.compile, minus that of Weft's program called
  without torch.compile. "torch" is what torch.compile itself adds to eager mode.
- calls: the time of a call of torch.compile with weft, weft.compile of the exported program, torch.compile with
  inductor in each mode, and eager mode. They take turns in one process. "freezing" is inductor's default mode with
  weights that it may pack.

Writes a row for each, in the form of bench/results/README.md. After --limit seconds `calls` begins no other network; a
line names each network that is left out.
"""
import argparse
import contextlib
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "models"))

import machine

MODES = {"cpu": ["default", "freezing"], "gpu": ["default", "reduce-overhead"]}
TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def ready(name, arguments):
    """Returns the module and its inputs on the device, in the given type. Its batch norms have the statistics of a
    batch."""
    import export
    import torch

    torch.set_num_threads(arguments.threads)
    place = "cuda" if arguments.device != "cpu" else "cpu"
    kind = getattr(torch, TYPES[arguments.type])

    def moved(value):
        return value.to(place, kind) if value.is_floating_point() else value.to(place)

    network, _ = export.prepare(name)
    inputs = list(map(moved, network.inputs.values()))
    return network.module.eval().to(place, kind), inputs


def backends(arguments):
    return ["weft", *(f"inductor {mode}" for mode in arguments.modes)]


def compiled(module, backend, arguments):
    import torch

    if backend == "eager":
        return module
    if backend == "torch":
        return torch.compile(module, backend="aot_eager")
    if backend == "weft":
        import weft.torch  # noqa: F401

        options = {"fullgraph": True, "threads": arguments.threads}
        return torch.compile(module, backend="weft", options=options)
    mode = backend.partition(" ")[2]
    if mode == "freezing":
        return torch.compile(module, backend="inductor", options={"freezing": True})
    return torch.compile(module, backend="inductor", mode=mode)


def settled(arguments):
    if arguments.device != "cpu":
        import torch

        torch.cuda.synchronize()


def first_call(name, backend, arguments):
    """Returns the seconds from torch.compile to the first answer. They include importing weft.torch, not torch."""
    import torch

    module, inputs = ready(name, arguments)
    with torch.no_grad():
        begin = time.perf_counter()
        compiled(module, backend, arguments)(*inputs)
        settled(arguments)
        return time.perf_counter() - begin


def cold(name, arguments):
    found = {}
    for backend in (*backends(arguments), "torch"):
        with tempfile.TemporaryDirectory() as folder:
            places = {"WEFT_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": folder}
            words = [sys.executable, __file__, "--first", f"{name},{backend}", "--threads", str(arguments.threads)]
            words += ["--device", arguments.device, "--type", arguments.type]
            done = subprocess.run(words, env={**os.environ, **places}, capture_output=True, text=True, check=True)
            found[backend] = {"seconds": json.loads(done.stdout.splitlines()[-1])}
    return found


@contextlib.contextmanager
def alone(arguments):
    """Takes the lock exclusively, so that no other process with the same --lock measures meanwhile; others may
    compile."""
    with open(arguments.lock or os.devnull, "a") as file:
        if arguments.lock:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def times(calls, arguments):
    with alone(arguments):
        return measured(calls, arguments)


def measured(calls, arguments):
    """Returns the median seconds of a call of each function; the functions take turns."""
    found = {name: [] for name in calls}
    for _ in range(arguments.rounds):
        for name, call in calls.items():
            call()
            settled(arguments)
            begin, count = time.perf_counter(), 0
            while time.perf_counter() - begin < arguments.seconds:
                call()
                count += 1
                if count % 16 == 0 or arguments.device == "cpu":
                    settled(arguments)
            settled(arguments)
            found[name].append((time.perf_counter() - begin) / count)
    return {name: statistics.median(values) for name, values in found.items()}


def overhead(arguments):
    import torch

    import weft.torch

    place = "cuda" if arguments.device != "cpu" else "cpu"
    module, x = torch.nn.Linear(8, 8).eval().to(place), torch.randn(1, 8, device=place)
    with torch.no_grad():
        run = weft.torch.from_torch(torch.export.export(module, (x,)), device="auto" if place == "cuda" else "cpu", threads=1)
        out = torch.empty(1, 8, device=place)
        stream = None if place == "cpu" else torch.cuda.current_stream().cuda_stream
        address, sizes = [x.data_ptr()], [x.shape]
        calls = {"program": lambda: run._native.run_at(address, sizes, lambda *_: out.data_ptr(), stream, 0.0)}
        for backend in (*backends(arguments), "eager"):
            fast = compiled(module, backend, arguments)
            fast(x)
            calls[backend] = lambda fast=fast: fast(x)
        alone = torch.compile(module, backend="eager")
        alone(x)
        calls["torch"] = lambda: alone(x)
        found = times(calls, arguments)
    without = {name: found["eager" if name == "torch" else "program"] for name in found}
    return {name: {"us": 1e6 * (value - without[name])} for name, value in found.items()}


def calls(name, arguments):
    import torch

    import weft.torch

    with torch.no_grad():
        module, inputs = ready(name, arguments)
        device = "cpu" if arguments.device == "cpu" else "auto"
        program = weft.torch.from_torch(torch.export.export(module, tuple(inputs)), device=device, threads=arguments.threads)
        runs = {"alone": lambda: program(*inputs)}
        torch._dynamo.reset()
        for backend in (*backends(arguments), "eager"):
            fast = compiled(module, backend, arguments)
            fast(*inputs)
            runs[backend] = lambda fast=fast: fast(*inputs)
        found = times(runs, arguments)
    return {backend: {"ms": 1e3 * value} for backend, value in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["cold", "overhead", "calls"])
    parser.add_argument("--models", type=lambda text: text.split(","), default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--device", default="cpu", help="cpu or gpu")
    parser.add_argument("--type", default="f32", choices=TYPES)
    parser.add_argument("--limit", type=float, default=500)
    parser.add_argument("--modes", type=lambda text: [mode for mode in text.split(",") if mode], help="of inductor; empty: without it")
    parser.add_argument("--lock", help="a file: processes that share it compile at once and time one after the other")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    arguments.modes = MODES["cpu" if arguments.device == "cpu" else "gpu"] if arguments.modes is None else arguments.modes
    if arguments.first:
        print(json.dumps(first_call(*arguments.first.split(","), arguments)))
        return
    begin = time.perf_counter()
    host = machine.processor() if arguments.device == "cpu" else machine.gpu()
    of = {"threads": arguments.threads, "type": arguments.type, "load": machine.load(), "torch": version("torch")}

    def tell(what, about, found):
        values = found.pop("weft")
        machine.tell(machine.result(what, {**about, **of}, values, peers=found, machine=host), arguments.out)

    if "cold" in arguments.only:
        for name in arguments.models or ["resnet50"]:
            tell("torch.compile, first call", {"model": name}, cold(name, arguments))
    if "overhead" in arguments.only:
        tell("torch.compile, cost of a call", {"model": "linear"}, overhead(arguments))
    if "calls" in arguments.only:
        import networks

        for name in arguments.models or list(networks.NETWORKS):
            if time.perf_counter() - begin > arguments.limit:
                print(f"left out for want of time: {name}", file=sys.stderr)
                continue
            tell(f"torch.compile, time of a call{'' if arguments.modes else ', without inductor'}", {"model": name}, calls(name, arguments))


if __name__ == "__main__":
    main()
