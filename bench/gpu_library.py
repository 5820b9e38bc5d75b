# SPDX-License-Identifier: Apache-2.0
"""Checks the answers of convolutions that the vendor's library (cuDNN, MIOpen) computes, also where the library would
not be chosen because it is slower. Writes a row of results for each precision and --candidate, with fixed and with open
sizes.

The model has every form that a library is asked for: groups, strides, uneven padding, a bias, an added tensor, relu,
and an activation that no library has. A made-up tuning database makes the library the fastest candidate of every
convolution. A row has the errors of the library and of Weft's own kernels relative to the reference. It says how many
of 100 replays give other bits, and whether the library and Weft's kernels give NaN at the same places, for inputs with
NaN, infinities and 60000. With open sizes three batches run one after the other, and then the first again.

  python bench/gpu_library.py [--device nvidia:0] [--precisions f16,bf16,f32] [--candidate fused|alone] [--out results.jsonl]

Needs onnx and a build; WEFT_CUDNN_LIBRARY or WEFT_MIOPEN_LIBRARY names the library where the loader does not find it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gpu
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from weft_library import Program, library_path

LIBRARIES = ("cudnn", "miopen")
CHANNELS = 32


def model(path):
    random = np.random.default_rng(1)
    weights, nodes = [], []

    def constant(name, *dims):
        scale = 1 / np.sqrt(max(np.prod(dims[1:]), 1))
        weights.append(numpy_helper.from_array((random.standard_normal(dims) * scale).astype(np.float32), name))
        return name

    def conv(x, name, taps, out, groups=1, **attributes):
        inputs = [x, constant(f"{name}.w", out, CHANNELS // groups, taps, taps), constant(f"{name}.b", out)]
        nodes.append(helper.make_node("Conv", inputs, [name], name, group=groups, **attributes))
        return name

    def node(kind, *inputs):
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], name))
        return name

    a = node("Relu", conv("x", "plain", 3, CHANNELS, pads=[1, 1, 1, 1]))
    b = node("Relu", node("Add", conv(a, "residual", 1, CHANNELS), a))
    c = node("Add", conv(b, "groups", 3, CHANNELS, groups=4, pads=[1, 1, 1, 1]), b)
    d = node("Tanh", conv(c, "other", 3, CHANNELS, dilations=[2, 2], pads=[2, 2, 2, 2]))
    conv(node("Add", d, c), "y", 3, 64, strides=[2, 2], pads=[0, 0, 1, 1])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", CHANNELS, 28, 28])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64, 14, 14])
    graph = helper.make_graph(nodes, "convolutions", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def inputs(batch, special):
    x = np.random.default_rng(batch).standard_normal((batch, CHANNELS, 28, 28)).astype(np.float32)
    if special:
        x[0, 1, 5, 5], x[0, 2, 20, 3], x[0, 3, 9, 22], x[0, 4, 14, 14] = np.nan, np.inf, -np.inf, 60000
    return x


def weft(database, *words):
    command = [library_path().parent.parent / "bin/weft", *words]
    done = subprocess.run([str(word) for word in command], env=os.environ | {"WEFT_TUNINGS": str(database)}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def imported(folder, path, arguments, candidate):
    """Makes a tuning database in which the library's candidate of the form `candidate` ("fused" or "alone") takes the
    least time. Returns the problems for which the library has a candidate of any form."""
    weft(folder / "measured.db", "tune", path, *arguments, "--seconds", 60)
    weft(folder / "measured.db", "tune", "--export", folder / "t.json")
    tunings = json.loads((folder / "t.json").read_text())["tunings"]
    taken = set()
    for t in tunings:
        library, _, form = t["candidate"].partition(" ")
        is_it = library in LIBRARIES and (form == "fused") == (candidate == "fused")
        t["nanoseconds"] = 1.0 if is_it else 10.0 if library in LIBRARIES else 1000.0
        taken |= {t["problem"]} if library in LIBRARIES else set()
    (folder / "t.json").write_text(json.dumps({"schema": "weft.tunings.1", "tunings": tunings}))
    weft(folder / "imported.db", "tune", "--import", folder / "t.json")
    return taken


def answers(path, precision, symbols, device, batches):
    """Returns outputs for plain and special inputs at each batch. Also returns how many of 100 replays of the first
    batch differ from its first run; 0 on ref, which is not replayed."""
    program = Program(path, 0, precision, symbols, device)
    found, differing = {}, 0
    for batch in batches:
        for special in (False, True):
            found[f"{batch} {special}"] = program.run({"x": inputs(batch, special)})["y"].copy()
    first = f"{batches[0]} False"
    for _ in range(100 if device != "ref" else 0):
        differing += not np.array_equal(program.run({"x": inputs(batches[0], False)})["y"], found[first])
    return found | {"differing": np.array(differing)}


def in_process(folder, database, *work):
    """Runs `work` in a new process, because a process reads the tuning database only once."""
    out = folder / "answers.npz"
    command = [sys.executable, __file__, "--work", json.dumps([str(out), *map(str, work[:2]), *work[2:]])]
    subprocess.run(command, env=os.environ | {"WEFT_TUNINGS": str(database)}, check=True)
    return dict(np.load(out))


def distance(y, r):
    return float(np.linalg.norm((y - r).astype(np.float64)) / np.linalg.norm(r.astype(np.float64)))


def compare(library, own, reference):
    plain = [name for name in reference if name.endswith("False")]
    special = [name for name in reference if name.endswith("True")]
    alike = all(np.array_equal(np.isnan(library[name]), np.isnan(own[name])) for name in special)
    return {
        "to_reference": max(distance(library[name], reference[name]) for name in plain),
        "own_to_reference": max(distance(own[name], reference[name]) for name in plain),
        "nan_where_own_has_it": alike,
        "nan": int(sum(np.isnan(library[name]).sum() for name in special)),
        "replays_that_differ": int(library["differing"]),
    }


def check(device, precision, is_open, candidate):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "convolutions.onnx"
        model(path)
        symbols = {} if is_open else {"batch": 4}
        batches = [16, 3, 9, 16] if is_open else [4]
        words = ["--device", device, "--precision", precision, *(f"--symbol=batch={n}" for n in symbols.values())]
        taken = imported(folder, path, words, candidate)
        steps = weft(folder / "imported.db", "explain", path, *words)
        library = in_process(folder, folder / "imported.db", path, precision, symbols, device, batches)
        own = in_process(folder, folder / "none.db", path, precision, symbols, device, batches)
        reference = in_process(folder, folder / "none.db", path, "f32", symbols, "ref", batches)
        called = [line.strip() for line in steps.splitlines() if any(f"{name}_" in line for name in LIBRARIES)]
        return {
            "device": device,
            "precision": precision,
            "sizes": "open" if is_open else "fixed",
            "candidate": candidate,
            "problems": len(taken),
            "calls": len(called),
            "steps": called,
        } | compare(library, own, reference)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="nvidia:0")
    parser.add_argument("--precisions", default="f16,bf16,f32")
    parser.add_argument("--candidate", default="fused,alone")
    parser.add_argument("--out")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        out, path, precision, symbols, device, batches = json.loads(arguments.work)
        return np.savez(out, **answers(path, precision, symbols, device, batches))
    for precision in arguments.precisions.split(","):
        for is_open in (False, True):
            for candidate in arguments.candidate.split(","):
                gpu.tell("cuDNN's convolutions on a GPU", check(arguments.device, precision, is_open, candidate), arguments.out)


if __name__ == "__main__":
    main()
