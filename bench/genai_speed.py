#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast stock onnxruntime-genai generates on Weft and on its own CPU provider. Prints the tokens a second
of the prompt and of the generated text, in wall time and in CPU time.

    python bench/genai_speed.py MODEL_FOLDER --threads 2 --rounds 5

Each provider runs in a process of its own, which keeps its model loaded; the two alternate. Prints medians, and the
median over all rounds of the ratio of speeds (above 1: Weft is faster)."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

LIBRARY = pathlib.Path(__file__).parents[1] / "build/release/lib/libamdgpu-ep.so"
PROVIDERS = {"weft": "WeftExecutionProvider", "amdgpu": "amdgpu", "cpu": None}


def open_model(og, folder, provider, threads):
    config = og.Config(folder)
    config.clear_providers()
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
    if provider:
        config.append_provider(provider)
        config.set_provider_option(provider, "threads", str(threads))
    return og.Model(config)


def work(arguments):
    """Prints the seconds of loading. Then, for each line "PREFILL DECODE" (two numbers of tokens) of the standard input,
    prints the wall and the CPU seconds of both phases."""
    folder, engine, threads, library, room = arguments
    provider = PROVIDERS[engine]
    if provider == "amdgpu":
        os.environ["AMDGPU_EP_PATH"] = library
    import numpy as np
    import onnxruntime_genai as og

    if provider and provider != "amdgpu":
        og.register_execution_provider_library("weft", library)
    begin = time.perf_counter()
    model = open_model(og, folder, provider, int(threads))
    print(json.dumps({"load": time.perf_counter() - begin}), flush=True)
    for line in sys.stdin:
        prompt, count = map(int, line.split())
        ids = np.random.default_rng(prompt).integers(3, 259, prompt).astype(np.int32)
        parameters = og.GeneratorParams(model)
        length = max(int(room), prompt + count + 1)
        parameters.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator = og.Generator(model, parameters)
        marks = [(time.perf_counter(), time.process_time())]
        generator.append_tokens(ids)
        generator.get_logits()
        marks.append((time.perf_counter(), time.process_time()))
        for _ in range(count):
            generator.generate_next_token()
        generator.get_logits()
        marks.append((time.perf_counter(), time.process_time()))
        (w0, c0), (w1, c1), (w2, c2) = marks
        print(json.dumps({"prefill": [w1 - w0, c1 - c0], "decode": [w2 - w1, c2 - c1]}), flush=True)


class Side:
    def __init__(self, options, engine):
        command = [sys.executable, __file__, "--work", options.folder, engine, options.threads, options.library.absolute(),
                   options.room]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load, self.runs = self.answer()["load"], []

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit("a side ended early")

    def run(self, prefill, decode):
        self.process.stdin.write(f"{prefill} {decode}\n")
        self.process.stdin.flush()
        return self.answer()

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    parser.add_argument("--engines", default="weft,cpu", help="two of weft, amdgpu, cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=int, default=128)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--room", type=int, default=1024, help="max_length, which the cache has room for")
    options = parser.parse_args()
    names = options.engines.split(",")
    sides = [Side(options, name) for name in names]
    for side in sides:
        side.run(8, 2)
    for _ in range(options.rounds):
        for side in sides:
            side.runs.append(side.run(options.prefill, options.decode))
    for phase, count in ("prefill", options.prefill), ("decode", options.decode):
        for at, clock in enumerate(("wall", "CPU")):
            rates = [[count / run[phase][at] for run in side.runs] for side in sides]
            ratio = statistics.median(a / b for a, b in zip(*rates))
            shown = ", ".join(f"{name} {statistics.median(rate):.1f}" for name, rate in zip(names, rates))
            print(f"{phase:8} tokens a second of {clock:4}: {shown}; ratio {ratio:.2f}")
    for name, side in zip(names, sides):
        print(f"{name}: ready in {side.load:.2f} s, {side.resident():.0f} MiB resident")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
