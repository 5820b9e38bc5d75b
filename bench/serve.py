# SPDX-License-Identifier: Apache-2.0
"""Measures requests a second and latency of `weft serve`, and of onnxruntime with the same FastAPI application, over
loopback.

  ./x python bench/serve.py [--models digits,query,minilm,resnet50] [--clients 1,8,64] [--seconds 3] [--rounds 3] [--out results.jsonl]

The servers alternate; the whole run takes about 9 minutes. `warm_mib` and `mib` are a server's memory after the first
round and after the last. Each client sends its next request, one row in binary, when it has received the answer to the
previous one. "alone" is Weft with --max-batch 1, which shows the gain from joining requests. `minilm` has the sizes of
MiniLM-L6 (6 layers of 384) and made-up weights, 32 tokens; `query` is the same file with the 8 tokens of a search
query.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "models"), str(HERE.parent / "tests" / "serve")]
import environment
import fill
import machine

BUILD = Path(os.environ.get("WEFT_BUILD", machine.ROOT / "build/release"))
LAYERS, WIDTH, HEADS, INNER, WORDS = 6, 384, 12, 1536, 30522
TOKENS = {"minilm": 32, "query": 8}


# --- models ---------------------------------------------------------------------------------------------------------


def minilm(path):
    """Writes an encoder with the operators that exporters write. The encoder maps tokens and a mask to a normalised
    vector, the sum over the tokens that the mask keeps."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng, nodes, weights = np.random.default_rng(0), [], []

    def constant(name, array):
        weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(name, *shape):
        return constant(name, (rng.standard_normal(shape) * 0.05).astype(np.float32))

    def node(op, inputs, name, **attributes):
        nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def dense(x, name, rows, columns):
        return node("Add", [node("MatMul", [x, weight(f"{name}.w", rows, columns)], f"{name}.p"), weight(f"{name}.b", columns)], name)

    def norm(x, name):
        scale = constant(f"{name}.s", np.ones(WIDTH, np.float32))
        return node("LayerNormalization", [x, scale, weight(f"{name}.b", WIDTH)], name, axis=-1)

    def heads(x, name, order):
        return node("Transpose", [node("Reshape", [x, "split"], f"{name}.r")], f"{name}.t", perm=order)

    constant("split", np.array([0, 0, HEADS, WIDTH // HEADS]))
    constant("join", np.array([0, 0, WIDTH]))
    x = norm(node("Gather", [weight("words", WORDS, WIDTH), "input_ids"], "embedded"), "norm")
    mask = node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    hidden = node("Sub", [mask, constant("one", np.float32(1))], "hidden")
    bias = node("Mul", [node("Unsqueeze", [hidden, constant("axes", np.array([1, 2]))], "wide"), constant("far", np.float32(1e4))], "bias")
    for layer in range(LAYERS):
        at = f"layer{layer}"
        q, k, v = (heads(dense(x, f"{at}.{n}", WIDTH, WIDTH), f"{at}.{n}", o) for n, o in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])))
        scaled = node("Mul", [node("MatMul", [q, k], f"{at}.qk"), constant(f"{at}.root", np.float32((WIDTH // HEADS) ** -0.5))], f"{at}.scaled")
        share = node("Softmax", [node("Add", [scaled, bias], f"{at}.masked")], f"{at}.share", axis=-1)
        mixed = node("Transpose", [node("MatMul", [share, v], f"{at}.mix")], f"{at}.back", perm=[0, 2, 1, 3])
        x = norm(node("Add", [x, dense(node("Reshape", [mixed, "join"], f"{at}.joined"), f"{at}.out", WIDTH, WIDTH)], f"{at}.sum"), f"{at}.norm1")
        inner = node("Gelu", [dense(x, f"{at}.up", WIDTH, INNER)], f"{at}.gelu")
        x = norm(node("Add", [x, dense(inner, f"{at}.down", INNER, WIDTH)], f"{at}.sum2"), f"{at}.norm2")
    tokens = node("Unsqueeze", [mask, constant("last", np.array([2]))], "tokens")
    total = node("ReduceSum", [node("Mul", [x, tokens], "kept"), constant("rows", np.array([1]))], "total", keepdims=0)
    node("LpNormalization", [total], "embedding", axis=-1, p=2)
    ids = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "tokens_"]) for n in ("input_ids", "attention_mask")]
    out = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])
    graph = helper.make_graph(nodes, "minilm", ids, [out], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def model_of(name):
    """Returns the model file, and the inputs of a request."""
    if name == "digits":
        return machine.ROOT / "examples/digits/digits.onnx", {"image": np.load(machine.ROOT / "examples/digits/ten.npy")[:1]}
    if name in TOKENS:
        path = Path(fill.cached("resnet50")).parent / "minilm.onnx"
        ids = np.arange(TOKENS[name], dtype=np.int64)[None] * 37 % WORDS
        return path if path.exists() else minilm(path), {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    import onnx

    path = fill.cached(name)
    (port,) = onnx.load(path, load_external_data=False).graph.input
    sizes = [dim.dim_value or 1 for dim in port.type.tensor_type.shape.dim]
    return path, {port.name: np.random.default_rng(0).random(sizes, np.float32)}


# --- servers --------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, engine, name, path):
        script = ["-m", "weft.serve"] if engine != "onnxruntime" else [str(HERE / "serve_onnxruntime.py")]
        words = ["--port", "0", "--queue", "1000", *(["--max-batch", "1"] if engine == "alone" else [])]
        site = next(p for p in sys.path if p.endswith("site-packages"))
        environment_ = os.environ | {"PYTHONPATH": str(BUILD / "python"), "BENCH_SITE": site}
        command = [str(environment.python_of("serve")), *script, f"{name}={path}", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment_)
        self.host, self.port = self.process.stdout.readline().split()[-1].rpartition("//")[2].split(":")

    def memory(self):
        """Returns the process's resident memory in MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def request_of(name, feeds):
    """Returns the bytes of an HTTP request for inference, with head and body."""
    kinds = {"float32": "FP32", "int64": "INT64"}
    inputs = [{"name": n, "datatype": kinds[str(a.dtype)], "shape": a.shape, "parameters": {"binary_data_size": a.nbytes}} for n, a in feeds.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = head + b"".join(array.tobytes() for array in feeds.values())
    lines = [f"POST /v2/models/{name}/infer HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", f"Inference-Header-Content-Length: {len(head)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def client(server, request, end, times):
    reader, writer = await asyncio.open_connection(server.host, int(server.port))
    while time.perf_counter() < end:
        begin = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")))
        await reader.readexactly(length)
        times.append(time.perf_counter() - begin)
    writer.close()


async def load(server, request, clients, seconds):
    """Returns the latencies of all requests, and the elapsed time."""
    times, begin = [], time.perf_counter()
    await asyncio.gather(*(client(server, request, begin + seconds, times) for _ in range(clients)))
    return times, time.perf_counter() - begin


def measure(servers, request, clients, arguments):
    """Measures all servers in turns; returns {engine: figures}."""
    times, rates, memory = ({engine: [] for engine in servers} for _ in range(3))
    for round_ in range(arguments.rounds + 1):
        for engine, server in servers.items():
            found, seconds = asyncio.run(load(server, request, clients, arguments.seconds))
            memory[engine].append(server.memory())
            if round_:  # the first round only warms up
                times[engine] += found
                rates[engine].append(len(found) / seconds)
    figures = {}
    for engine, found in times.items():
        found = sorted(found)
        p50, p99 = (1000 * found[int(len(found) * share)] for share in (0.5, 0.99))
        figures[engine] = {"requests_per_s": statistics.median(rates[engine]), "p50_ms": p50, "p99_ms": p99}
        figures[engine] |= {"warm_mib": memory[engine][0], "mib": memory[engine][-1]}
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=["digits", "query", "minilm", "resnet50"])
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["weft", "alone", "onnxruntime"])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    for name in arguments.models:
        path, feeds = model_of(name)
        servers = {engine: Server(engine, name, path) for engine in arguments.engines}
        try:
            for clients in arguments.clients:
                figures = measure(servers, request_of(name, feeds), clients, arguments)
                row = machine.result("serving", {"model": name, "clients": clients}, figures.pop("weft"), figures)
                machine.tell(row, arguments.out)
        finally:
            for server in servers.values():
                server.stop()


if __name__ == "__main__":
    main()
