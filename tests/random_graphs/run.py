#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [--seed S] [--count N] [--devices ref,cpu] [--keep FOLDER]: random graphs against three judges.

Each graph was computed by onnx's reference evaluator while it was drawn, in the model's types and in float64; onnxruntime
must agree with that too, or the graph says nothing about Weft. Weft runs it on each device. Graphs run in a process of
their own, so a crash is one failed graph. Prints one line for each failure, and at the end what was seen: graphs, operators,
how often each pass changed something, refusals by code. Exit code 1 on a failure.
"""
import argparse
import collections
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
BUILD = Path(os.environ.get("WEFT_BUILD", Path(__file__).resolve().parents[2] / "build" / "release"))
sys.path.insert(0, str(BUILD / "python"))

from graphs import difference, draw_graph, feeds, open_sizes  # noqa: E402

SECONDS = 120  # for one graph


def judged_by_onnxruntime(model, d):
    """Empty when onnxruntime agrees or has no opinion, else why the graph is no test."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        answers = session.run(None, feeds(d))
    except Exception:  # an operator or type that it does not have
        return ""
    return next(filter(None, map(difference, d.outputs(), answers)), "")


def check_graph(seed, devices):
    """What Weft makes of the graph: a dictionary of plain data."""
    import weft

    d = draw_graph(seed)
    model = d.model(open_sizes(d)).SerializeToString()
    seen = {"seed": seed, "operators": sorted({n.op_type for n in d.nodes}), "passes": {}, "wrong": [], "refused": []}
    for device in devices:
        try:
            program = weft.compile(model, device=device)
            answers = program.run(feeds(d))
        except weft.UnsupportedError as error:
            seen["refused"].append(f"{error.code} {device}: {error}")
            continue
        except weft.Error as error:
            seen["wrong"].append(f"{device}: {error}")
            continue
        changes = program.report()["compile"]["pass_changes"]
        seen["passes"] = {name: seen["passes"].get(name, 0) + count for name, count in changes.items()}
        seen["wrong"] += [f"{device}: {text}" for v in d.outputs() if (text := difference(v, answers[v.name]))]
    if seen["wrong"]:
        disagrees = judged_by_onnxruntime(model, d)
        seen["judges_differ"] = disagrees
    return seen


def serve(pipe, work, context):
    while True:
        pipe.send(work(pipe.recv(), context))


class Worker:
    """A process that answers `work(question, context)`, started again after a crash."""

    def __init__(self, work, context):
        self.work, self.context, self.process = work, context, None

    def ask(self, question):
        """The answer, or a text that says how the process ended."""
        if self.process is None:
            self.pipe, other = multiprocessing.Pipe()
            self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(other, self.work, self.context),
                                                                           daemon=True)  # fmt: skip
            self.process.start()
            other.close()
        try:
            self.pipe.send(question)
            if self.pipe.poll(SECONDS):
                return self.pipe.recv()
            why = f"took more than {SECONDS} s"
        except (EOFError, ConnectionError):
            self.process.join()
            why = f"the process ended with {self.process.exitcode}"
        self.process.kill()
        self.process = None
        return why


def report(seen, keep):
    """Prints a failure and keeps the model; true if it is one."""
    if not seen["wrong"]:
        return False
    if seen.get("judges_differ"):
        print(f"seed {seen['seed']}: the judges differ: {seen['judges_differ']}", flush=True)
        return False
    for text in seen["wrong"]:
        print(f"seed {seen['seed']}: {text}", flush=True)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        d = draw_graph(seen["seed"])
        (keep / f"seed{seen['seed']}.onnx").write_bytes(d.model(open_sizes(d)).SerializeToString())
    return True


def run(first, count, devices, keep=None):
    """Checks `count` graphs; gives what was seen in sum."""
    worker = Worker(check_graph, devices)
    total = {"graphs": count, "failed": [], "operators": collections.Counter(), "passes": collections.Counter(),
             "refused": collections.Counter()}  # fmt: skip
    for seed in range(first, first + count):
        seen = worker.ask(seed)
        if isinstance(seen, str):
            seen = {"seed": seed, "operators": [], "passes": {}, "wrong": [seen], "refused": []}
        total["operators"].update(seen["operators"])
        total["passes"].update(seen["passes"])
        total["refused"].update(text.split(":")[0] for text in seen["refused"])
        if report(seen, keep):
            total["failed"].append(seed)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time() // 86400) * 100_000)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--devices", default="ref,cpu")
    parser.add_argument("--keep", type=Path)
    words = parser.parse_args()
    total = run(words.seed, words.count, words.devices.split(","), words.keep)
    print(json.dumps({"first seed": words.seed, **total}, indent=1))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
