#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [--seed S] [--count N] [--precision P] [--devices ref,ref:cpu,cpu/12] [--jobs J] [--keep FOLDER]

Tests random graphs. Each graph was computed by onnx's reference evaluator while it was drawn, in the model's types and
in float64. The graph is used only if onnxruntime agrees. Weft runs it on each device; a graph with open sizes also runs
at other sizes. Unless --precision is given, the seed also decides the precision: f32, or one that keeps values in 16
bits. Devices with kernels run in that precision, and their answers are compared with ref's; the tolerance is the effect
of rounding on the answers (tools/precision.cpp). Graphs run in processes of their own, so a crash is one failed graph.
Prints a line for each failure with the command that repeats it. At the end prints the counts of graphs, of operators,
of graphs in which each pass changed something, and of refusals by code. `ref:CHIP` is the reference after the passes
for that chip, which tests passes without compiling a kernel. `NAME/N` takes every Nth graph; `amd:0` is an emulated GPU
if AMDEMU_CHIPS names a chip. Exit code 1 on a failure, or if an operator occurred in fewer than 0.5 % of the graphs or
a pass changed fewer than 1 %.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
BUILD = Path(os.environ.get("WEFT_BUILD", Path(__file__).resolve().parents[2] / "build" / "release"))
os.environ.setdefault("WEFT_BUILD", str(BUILD))
sys.path.insert(0, str(BUILD / "python"))
if "AMDEMU_CHIPS" in os.environ:
    os.environ.setdefault("WEFT_HIP_LIBRARY", str(BUILD / "lib" / "libamdemu.so"))

import graphs
from operators import table as table_of_elementwise
from node_cases import cases
from draw import session_of
from places import ROOT, keep_count
from onnx import numpy_helper

sys.path.append(str(ROOT / "bench"))
import machine

SECONDS = 600  # time limit for one graph on a busy machine
MOST_TEXT = 400  # characters of a failure that are printed
CHUNK = 5  # graphs that one request to a process contains
OPERATOR_SHARE, PASS_SHARE = 50 / 10_000, 100 / 10_000
SIZES = ("E301", "E311", "E312")  # errors for inputs whose sizes do not fit
# Errors that a program with open sizes may end with: an attribute fits one size only, or a rule needs a number.
OPEN_SIZES = (*SIZES, "E122", "E140", "E151", "E159")
# Operators that take any sizes for which the reference has an answer: they broadcast or clamp.
TOLERANT = {name for name, _, _ in table_of_elementwise()} | {"Slice", "Expand", "MatMul", "Gemm", "Sum", "Mean"}
# Operators whose result sizes are known only at run time: such a result may have a single element where the graph needs
# several.
BY_DATA = {f"ai.onnx:{name}" for name in ("Compress", "NonZero", "Unique", "NonMaxSuppression", "TopK", "Loop", "If")}
# The reference target, plain and after the passes of a chip; "/4": on a quarter of the graphs.
PASSES = "ref,ref:cpu,ref:cpu:x86-64-v4+avx512vnni/4,ref:amd:gfx942/2"


def judged_by_onnxruntime(model, d, names):
    """Compares the outputs `names` with onnxruntime. Returns "" if it agrees or cannot run the graph, otherwise why the
    graph is unusable."""
    try:
        answers = session_of(model).run(None, graphs.feeds(d))
    except Exception:  # an operator or type that onnxruntime lacks
        return ""
    pairs = [(value, answer) for value, answer in zip(d.outputs(), answers) if value.name in names]
    return next(filter(None, (graphs.difference(*pair) for pair in pairs)), "")


def wrong_answers(program, given, values):
    answers = program.run(given)
    return [text for v in values if (text := graphs.difference(v, answers[v.name]))]


def compiled(device, d, model, seen):
    """Returns the program, and whether sizes are open in it."""
    import weft

    try:
        return weft.compile(model, device=device), True
    except weft.Error as error:
        fixed = d.model({}).SerializeToString()
        if error.code not in OPEN_SIZES or fixed == model:
            raise
        program = weft.compile(fixed, device=device)
        seen["refused"].append(f"{error.code} (open sizes) {device}: {error}")
        return program, False


def may_refuse(error, is_other):
    """True if a program with open sizes may end with this error; `is_other`: in a run with other sizes."""
    is_size = error.code == "E312"
    return error.code in OPEN_SIZES and not (is_size and (not is_other or any(f"({name})" in str(error) for name in TOLERANT)))


def note_passes(program, seen):
    for name, count in program.report()["compile"]["pass_changes"].items():
        seen["passes"][name] = max(seen["passes"].get(name, 0), int(count > 0))


def check_on(device, d, symbols, other, seen):
    import weft

    program, is_open = compiled(device, d, d.model(symbols).SerializeToString(), seen)
    note_passes(program, seen)
    try:
        wrong = wrong_answers(program, graphs.feeds(d), d.outputs())
    except weft.Error as error:  # a body that is compiled at the first run
        if not is_open or not may_refuse(error, False):
            raise
        seen["refused"].append(f"{error.code} (open sizes) {device}: {error}")
        program, is_open = weft.compile(d.model({}).SerializeToString(), device=device), False
        wrong = wrong_answers(program, graphs.feeds(d), d.outputs())
    seen["wrong"] += [f"{device}: {text}" for text in wrong]
    if other and is_open and not seen["wrong"]:
        seen["sizes"] += 1
        try:
            seen["wrong"] += [f"{device}, other sizes: {text}" for text in wrong_answers(program, *other)]
        except weft.Error as error:
            if not may_refuse(error, True):
                raise


class Judge:
    """A weft-precision process, which runs graphs in a precision and checks the answers. It is started again after a
    crash or a timeout."""

    process = None

    def ask(self, device, precision, folder):
        if self.process is None:
            self.process = subprocess.Popen([BUILD / "bin" / "weft-precision"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(f"{device} {precision} {folder}\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            why = f"took more than {SECONDS} s"
        elif line := self.process.stdout.readline():
            return line.strip().partition(" ")[2]
        else:
            why = f"weft-precision ended with {self.process.wait()}"
        self.process.kill()
        self.process = None
        return f"wrong: {why}"


judge = Judge()


def check_narrow(device, d, symbols, other, seen):
    """Checks a graph in its precision, with open sizes or, if these are refused, with fixed ones."""
    import weft

    if device.startswith("ref"):
        note_passes(weft.compile(d.model({}).SerializeToString(), device=device, precision=d.precision), seen)
    folder = Path(tempfile.mkdtemp())
    try:
        for sizes in (symbols, {}) if symbols else ({},):
            (folder / "model.onnx").write_bytes(d.model(sizes).SerializeToString())
            write_inputs(folder, graphs.feeds(d))
            if sizes and other:
                (folder / "other").mkdir()
                write_inputs(folder / "other", other[0])
            elif (folder / "other").exists():
                shutil.rmtree(folder / "other")
            verdict, _, rest = judge.ask(device, d.precision, folder).partition(" ")
            if verdict == "right":
                known, _, unknown, *_ = rest.split()
                seen["known"] += int(known)
                seen["unknown"] += int(unknown)
                return
            if sizes and rest[:4] in OPEN_SIZES:
                continue
            refused = verdict == "refused:" or is_by_data(rest[:4], rest, d)
            where = f"{device} in {d.precision}: {rest}"
            seen["refused" if refused else "wrong"].append(f"{rest[:4]} {where}" if refused else where)
            return
    finally:
        shutil.rmtree(folder)


def is_by_data(code, text, d):
    """True if a run-time size may be the cause of the refusal."""
    if code == "E312" and any(f"({name})" in text for name in TOLERANT):
        return False
    return code in (*SIZES, "E151") and any(f"{n.domain or 'ai.onnx'}:{n.op_type}" in BY_DATA for n in all_nodes(d.nodes))


def write_inputs(folder, given):
    for k, (name, array) in enumerate(given.items()):
        (folder / f"input_{k}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def check_graph(seed, devices, precision):
    """Runs a graph on the devices; returns the findings as plain data."""
    import weft

    d = graphs.draw_graph(seed, precision)
    symbols = graphs.open_sizes(d)
    other = graphs.other_sizes(d, symbols)
    named = {f"{n.domain or 'ai.onnx'}:{n.op_type}" for n in all_nodes(d.nodes)}
    seen = empty_of(seed) | {"operators": sorted(named), "precision": d.precision}
    for device in devices_of(seed, devices):
        try:
            check_device(device, d, symbols, other, seen)
        except weft.UnsupportedError as error:
            seen["refused"].append(f"{error.code} {device}: {error}")
        except weft.Error as error:
            refused = is_by_data(error.code, str(error), d)
            seen["refused" if refused else "wrong"].append(f"{error.code + ' ' if refused else ''}{device}: {error}")
    if seen["wrong"] and not any(" in " in text.split(": ")[0] for text in seen["wrong"]):
        names = {text.split(": ")[1].split()[0].split("[")[0] for text in seen["wrong"]}
        seen["judges_differ"] = judged_by_onnxruntime(d.model(symbols).SerializeToString(), d, names)
    return seen


def check_device(device, d, symbols, other, seen):
    if d.precision == "f32" or device.startswith("ref"):
        check_on(device, d, symbols, other, seen)
    if d.precision != "f32" and device != "ref":
        check_narrow(device, d, symbols, other, seen)
    seen["kernels"] += not device.startswith("ref")


def empty_of(seed):
    return {"seed": seed, "operators": [], "passes": {}, "sizes": 0, "kernels": 0, "known": 0, "unknown": 0, "precision": "",
            "wrong": [], "refused": []}


def devices_of(seed, devices):
    """Yields the devices for this graph: "NAME/N" is used for every Nth graph."""
    for device in devices:
        name, _, every = device.partition("/")
        if seed % int(every or 1) == 0:
            yield name


def all_nodes(nodes):
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from all_nodes(attribute.g.node)


def check_graphs(seeds, context):
    return [check_graph(seed, *context) for seed in seeds]


def serve(pipe, work, context):
    with contextlib.suppress(EOFError):  # the parent has closed the pipe
        while True:
            pipe.send(work(pipe.recv(), context))


class Worker:
    """A process that answers questions by `work(question, context)`. It is started again after a crash or a timeout."""

    def __init__(self, work, context):
        self.work, self.context, self.process = work, context, None

    def ask(self, question):
        """Returns the answer to a question; a string with the reason if the process ended or took too long."""
        if self.process is None:
            self.pipe, other = multiprocessing.Pipe()
            self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(other, self.work, self.context),
                                                                           daemon=True)
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

    def seen_of(self, seeds):
        """Returns the findings for each graph; if the process ends, asks for the graphs one by one."""
        answer = self.ask(seeds)
        if not isinstance(answer, str):
            return answer
        if len(seeds) > 1:
            return [seen for seed in seeds for seen in self.seen_of([seed])]
        return [empty_of(seeds[0]) | {"wrong": [answer]}]


def report(seen, devices, precision, keep):
    """Prints what was refused or wrong. Returns True if an answer is wrong and the reference engines agree."""
    for text in seen["refused"]:
        print(f"seed {seen['seed']}: refused: {text}", flush=True)
    if not seen["wrong"]:
        return False
    if seen.get("judges_differ"):
        print(f"seed {seen['seed']}: the judges differ: {seen['judges_differ']}; {seen['wrong'][0]}", flush=True)
        return False
    for text in seen["wrong"]:
        print(f"seed {seen['seed']}: {text[:MOST_TEXT]}", flush=True)
    asked = ["--devices", ",".join(devices_of(seen["seed"], devices)), *(["--precision", precision] if precision else [])]
    repeat = shlex.join(["tests/random_graphs/run.py", "--seed", str(seen["seed"]), "--count", "1", *asked])
    print(f"seed {seen['seed']}: again: {emulated()}./x python {repeat}", flush=True)
    if keep:
        keep_graph(seen, precision, keep / f"seed{seen['seed']}")
    return True


def emulated():
    return f"AMDEMU_CHIPS={os.environ['AMDEMU_CHIPS']} " if "AMDEMU_CHIPS" in os.environ else ""


def keep_graph(seen, precision, folder):
    """Writes the model and the inputs that it failed with, for `weft reduce FOLDER/model.onnx SMALL --input FOLDER`."""
    folder.mkdir(parents=True, exist_ok=True)
    d = graphs.draw_graph(seen["seed"], precision)
    symbols = graphs.open_sizes(d)
    other = graphs.other_sizes(d, symbols)
    (folder / "model.onnx").write_bytes(d.model(symbols).SerializeToString())
    given = other[0] if other and all("other sizes" in text for text in seen["wrong"]) else graphs.feeds(d)
    write_inputs(folder, given)


def run(first, count, devices, keep=None, jobs=None, precision=""):
    """Checks `count` graphs; returns the summed findings."""
    cases()  # collected once, before the worker processes start
    total = {"graphs": count, "failed": [], "judges differ": [], "other sizes": 0, "kernels": 0, "known": 0, "unknown": 0,
             **{kind: collections.Counter() for kind in ("precisions", "operators", "passes", "refused")}}
    jobs = jobs or len(os.sched_getaffinity(0))
    seeds = range(first, first + count)
    chunks = iter([list(seeds[at : at + CHUNK]) for at in range(0, count, CHUNK)])

    def work(worker):
        for chunk in chunks:
            for seen in worker.seen_of(chunk):
                add(total, seen, report(seen, devices, precision, keep))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work, Worker(check_graphs, (devices, precision))) for _ in range(jobs)]:
            done.result()
    total["failed"].sort()
    row = counted(total, ",".join(devices), first, precision)
    keep_count(row["what"], row["of"], **row["values"])
    return total


def counted(total, devices, first, precision):
    """Returns these counts as a row for bench/results."""
    of = {"devices": devices, "first seed": first} | ({"precision": precision} if precision else {})
    values = {"graphs": total["graphs"], "wrong": len(total["failed"]), **total["precisions"]}
    values |= {key.replace(" ", "_"): total[key] for key in ("other sizes", "kernels", "known", "unknown")}
    return machine.result("random graphs", of, values, machine=machine.of_device(devices))


def add(total, seen, has_failed):
    total["precisions"].update([seen["precision"]])
    for key in ("kernels", "known", "unknown"):
        total[key] += seen[key]
    total["operators"].update(seen["operators"])
    total["passes"].update(seen["passes"])
    total["other sizes"] += seen["sizes"]
    total["refused"].update(text.split(":")[0] for text in seen["refused"])
    if has_failed:
        total["failed"].append(seen["seed"])
    elif seen["wrong"]:
        total["judges differ"].append(seen["seed"])


def seldom(total):
    """Returns {name: count} of operators and passes below OPERATOR_SHARE or PASS_SHARE of the graphs."""
    wanted = int(total["graphs"] * OPERATOR_SHARE), int(total["graphs"] * PASS_SHARE)
    names = [f"{domain}:{name}" for domain, name in graphs.operators()]
    few = {name: total["operators"][name] for name in names if total["operators"][name] < wanted[0]}
    return few | {name: count for name, count in total["passes"].items() if count < wanted[1]}


def table(counts):
    return "\n".join(f"{count:7} {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time() // 86400) * 100_000)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--precision", default="", help="f32, bf16 or f16 for all graphs")
    parser.add_argument("--devices", default=f"{PASSES},cpu")
    parser.add_argument("--jobs", type=int, help="processes; as many as there are cores")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--out", help="a file of bench/results")
    parser.add_argument("--json", type=Path, help="write what was seen there too, to be added up over several runs")
    words = parser.parse_args()
    total = run(words.seed, words.count, words.devices.split(","), words.keep, words.jobs, words.precision)
    few = seldom(total)
    machine.keep(counted(total, words.devices, words.seed, words.precision), words.out)
    if words.json:
        words.json.write_text(json.dumps(total))
    print(f"graphs in which each operator stands\n{table(total['operators'])}")
    print(f"graphs in which each pass changed something\n{table(total['passes'])}")
    rest = {key: value for key, value in total.items() if key not in ("operators", "passes")}
    print(json.dumps({"first seed": words.seed, **rest, "seen too seldom": few}, indent=1))
    return 1 if total["failed"] or few else 0


if __name__ == "__main__":
    sys.exit(main())
