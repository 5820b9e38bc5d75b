#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the CPU time of models of one node in Weft and in onnxruntime's CPU provider, which alternate, on one
thread. The nodes are recurrent networks, mixtures of experts, and attention over a cache that is updated in place.

usage: ./x python bench/single_nodes.py [--rounds 9] [--out results.jsonl]
"""
import argparse
import pathlib
import statistics
import sys
import time

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/release/python"))
import machine
import weft


def floats(*dims):
    return np.random.default_rng(0).standard_normal(dims).astype(np.float32)


def model_of(op, inputs, constants, attributes, domain="", outputs=("y",)):
    """Returns a model's bytes and its feeds. `inputs` and `constants` map the node's input numbers to values."""
    names = [f"i{i}" if i in inputs or i in constants else "" for i in range(max([*inputs, *constants]) + 1)]
    infos = [helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for i, v in inputs.items()]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    graph = helper.make_graph([node], "graph", infos, [helper.make_empty_tensor_value_info(o) for o in outputs],
                              [numpy_helper.from_array(np.asarray(v), f"i{i}") for i, v in constants.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model, {f"i{i}": v for i, v in inputs.items()}


def recurrent(op, gates, batch, steps=128, size=256):
    weights = {1: floats(1, gates * size, size) / 16, 2: floats(1, gates * size, size) / 16, 3: floats(1, 2 * gates * size)}
    return model_of(op, {0: floats(steps, batch, size)}, weights, {"hidden_size": size})


def experts(tokens, count=8, size=512, inner=1024):
    weights = {2: floats(count, inner, size) / 20, 4: floats(count, size, inner) / 20}
    return model_of("MoE", {0: floats(tokens, size), 1: floats(tokens, count)}, weights,
                    {"k": 2, "activation_type": "silu"}, "com.microsoft")


def decoding(valid=1000, room=2048, heads=32, kv_heads=8, size=128):
    cache = floats(1, kv_heads, room, size)
    inputs = {0: floats(1, 1, heads * size), 1: floats(1, 1, kv_heads * size), 2: floats(1, 1, kv_heads * size), 3: cache,
              4: cache.copy(), 5: np.array([valid], np.int32)}
    return model_of("GroupQueryAttention", inputs, {6: np.int32(valid + 1)}, {"num_heads": heads, "kv_num_heads": kv_heads},
                    "com.microsoft", ("y", "k", "v"))


def seconds(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


def compare(name, model, feed, rounds, out, donate=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    program = weft.compile(model, device="cpu", threads=1, donate=donate)
    pairs = [(seconds(lambda: program.run(feed)), seconds(lambda: session.run(None, feed))) for _ in range(rounds)]
    ours, theirs = (statistics.median(times) * 1e3 for times in zip(*pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:40} weft {ours:8.2f} ms   onnxruntime {theirs:8.2f} ms   ratio {ratio:.2f}", flush=True)
    peers = {"onnxruntime": {"version": onnxruntime.__version__, "cpu_ms": theirs, "cpu_ratio": ratio}}
    of = {"operator": name, "threads": 1, "precision": "f32"}
    machine.keep(machine.result("operator on a CPU", of, {"cpu_ms": ours, "rounds": rounds, "load": machine.load()}, peers), out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", help="append a row for each operator to this file, see bench/results/README.md")
    arguments = parser.parse_args()
    rounds, out = arguments.rounds, arguments.out
    for op, gates, batch in ("LSTM", 4, 1), ("LSTM", 4, 16), ("GRU", 3, 1), ("RNN", 1, 1):
        compare(f"{op}, 128 steps, 256 wide, batch {batch}", *recurrent(op, gates, batch), rounds, out)
    for tokens in 1, 16, 256:
        compare(f"MoE, 2 of 8 experts, {tokens} tokens", *experts(tokens), rounds, out)
    compare("GroupQueryAttention, 1 of 2,048 tokens", *decoding(), rounds, out)
    compare("GroupQueryAttention, 1 of 2,048 tokens, in place", *decoding(), rounds, out, {"i3": "k", "i4": "v"})


if __name__ == "__main__":
    main()
