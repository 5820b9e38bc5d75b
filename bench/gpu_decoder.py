# SPDX-License-Identifier: Apache-2.0
"""Times one token of a Llama-style decoder with a key-value cache, in f16 with random weights. Weft runs the graph that
exporters write (com.microsoft's GroupQueryAttention); PyTorch uses a static cache, which is written in place.

  python bench/gpu_decoder.py [--size 1b] [--past 512] [--room 2048] [--peers] [--out results.jsonl]
  python bench/gpu_decoder.py --size tiny --write decoder.onnx      # the model alone

Needs onnx and numpy, and torch for the peers; WEFT_COMMAND names the command line. 1b has the sizes of Llama 3.2 1B.
"""

import argparse
import tempfile
from pathlib import Path

import gpu
import numpy as np
import onnx
from onnx import TensorProto, helper

# Hidden width, layers, heads, key-value heads, head size, width of the feed-forward layer, vocabulary.
SIZES = {
    "tiny": (64, 2, 4, 2, 16, 160, 512),
    "1b": (2048, 16, 32, 8, 64, 8192, 128256),
    "8b": (4096, 32, 32, 8, 128, 14336, 128256),
}
F16, I32, I64 = TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64


class Weights:
    """Random f16 weights, which are written one after another to a file beside the model."""

    def __init__(self, path):
        self.path, self.end, self.tensors = path, 0, []
        self.file = open(path, "wb")
        self.random = np.random.default_rng(1)
        self.pool = (self.random.standard_normal(1 << 22) * 0.02).astype(np.float16)

    def add(self, name, dims, values=None):
        count = int(np.prod(dims))
        if values is None:  # random slices of one pool, since drawing so many numbers takes minutes
            values = np.concatenate([np.roll(self.pool, int(self.random.integers(1 << 22)))[: min(1 << 22, count - at)]
                                     for at in range(0, count, 1 << 22)])
        tensor = TensorProto(name=name, dims=dims, data_type=F16, data_location=TensorProto.EXTERNAL)
        for key, value in {"location": self.path.name, "offset": self.end, "length": 2 * count}.items():
            tensor.external_data.add(key=key, value=str(value))
        self.file.write(values.astype(np.float16).tobytes())
        self.end += 2 * count
        self.tensors.append(tensor)
        return name


def write_model(path, size, room):
    width, layers, heads, kv_heads, head, inner, words = SIZES[size]
    w, nodes = Weights(path.with_suffix(".data")), []

    def node(op, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def matmul(x, name, rows, cols):
        return node("MatMul", [x, w.add(name, [rows, cols])], [f"{name}_y"])

    angle = np.outer(np.arange(room), 500000.0 ** (-np.arange(0, head, 2) / head))
    cosine, sine = (w.add(name, angle.shape, f(angle)) for name, f in (("cos", np.cos), ("sin", np.sin)))
    norm = lambda name: w.add(f"norm_{name}", [width], 1 + 0.1 * w.random.standard_normal(width))
    inputs = [helper.make_tensor_value_info("ids", I64, ["batch", 1]),
              helper.make_tensor_value_info("last", I32, ["batch"])]
    outputs = [helper.make_tensor_value_info("logits", F16, ["batch", 1, words])]
    cache = ["batch", kv_heads, "room", head]
    x = node("Gather", [w.add("embedding", [words, width]), "ids"], ["x"])
    y = node("SimplifiedLayerNormalization", [x, norm("first")], ["n"], epsilon=1e-5, axis=-1)
    for i in range(layers):
        for kind in "kv":
            inputs.append(helper.make_tensor_value_info(f"past_{kind}_{i}", F16, cache))
            outputs.append(helper.make_tensor_value_info(f"present_{kind}_{i}", F16, cache))
        qkv = matmul(y, f"qkv_{i}", width, (heads + 2 * kv_heads) * head)
        a = node("GroupQueryAttention", [qkv, "", "", f"past_k_{i}", f"past_v_{i}", "last", "total", cosine, sine],
                 [f"a_{i}", f"present_k_{i}", f"present_v_{i}"], "com.microsoft", num_heads=heads, kv_num_heads=kv_heads,
                 do_rotary=1)
        o = matmul(a, f"o_{i}", heads * head, width)
        y = node("SkipSimplifiedLayerNormalization", [x, o, norm(f"after_{i}")], [f"m_{i}", "", "", f"x_{i}"], "com.microsoft", epsilon=1e-5)
        x = f"x_{i}"
        gate, up = matmul(y, f"gate_{i}", width, inner), matmul(y, f"up_{i}", width, inner)
        silu = node("Mul", [gate, node("Sigmoid", [gate], [f"sigmoid_{i}"])], [f"silu_{i}"])
        down = matmul(node("Mul", [silu, up], [f"inner_{i}"]), f"down_{i}", inner, width)
        y = node("SkipSimplifiedLayerNormalization", [x, down, norm(f"last_{i}")], [f"n_{i}", "", "", f"z_{i}"], "com.microsoft", epsilon=1e-5)
        x = f"z_{i}"
    node("MatMul", [y, w.add("head", [width, words])], ["logits"])
    w.file.close()
    total = onnx.numpy_helper.from_array(np.array(room, np.int32), "total")
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, [*w.tensors, total])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def feeds(size, past, room):
    _, layers, _, kv_heads, head, *_ = SIZES[size]
    random = np.random.default_rng(2)
    arrays = {"ids": np.full((1, 1), 7), "last": np.full(1, past, np.int32)}
    for i in range(layers):
        for kind in "kv":
            arrays[f"past_{kind}_{i}"] = random.standard_normal((1, kv_heads, room, head)).astype(np.float16)
    return arrays


def weft_row(path, arguments):
    with tempfile.TemporaryDirectory() as folder:
        words = gpu.input_options(folder, feeds(arguments.size, arguments.past, arguments.room))
        words += ["--symbol", "batch=1", "--symbol", f"room={arguments.room}"]
        for i in range(SIZES[arguments.size][1]):  # the caches are donated, so that they are updated in place
            words += [word for kind in "kv" for word in ("--donate", f"past_{kind}_{i}=present_{kind}_{i}")]
        return gpu.measured(path, "gpu", "f32", words, arguments.kernels)


def torch_rows(arguments):
    import gpu_peers
    import torch

    width, layers, heads, kv_heads, head, inner, words = SIZES[arguments.size]
    position = arguments.past

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            linear = lambda a, b: torch.nn.Linear(a, b, bias=False)
            self.qkv, self.o = linear(width, (heads + 2 * kv_heads) * head), linear(heads * head, width)
            self.gate, self.up, self.down = linear(width, inner), linear(width, inner), linear(inner, width)
            self.before, self.after = torch.nn.RMSNorm(width), torch.nn.RMSNorm(width)
            for name in "kv":
                self.register_buffer(name, torch.randn(1, kv_heads, arguments.room, head))

        def forward(self, x, cosine, sine):
            q, k, v = self.qkv(self.before(x)).split([heads * head, kv_heads * head, kv_heads * head], -1)
            q, k, v = (t.view(1, 1, -1, head).transpose(1, 2) for t in (q, k, v))

            def turned(t):
                a, b = t.chunk(2, -1)
                return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)

            self.k[:, :, position : position + 1] = turned(k)
            self.v[:, :, position : position + 1] = v
            keys, values = self.k[:, :, : position + 1], self.v[:, :, : position + 1]
            a = torch.nn.functional.scaled_dot_product_attention(turned(q), keys, values, enable_gqa=True)
            x = x + self.o(a.transpose(1, 2).reshape(1, 1, -1))
            y = self.after(x)
            return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.norm = torch.nn.Embedding(words, width), torch.nn.RMSNorm(width)
            self.layers = torch.nn.ModuleList([Layer() for _ in range(layers)])
            self.head = torch.nn.Linear(width, words, bias=False)

        def forward(self, ids):
            angle = position / (500000 ** (torch.arange(0, head, 2, device=ids.device).float() / head))
            cosine, sine, x = angle.cos().half(), angle.sin().half(), self.embedding(ids)
            for layer in self.layers:
                x = layer(x, cosine, sine)
            return self.head(self.norm(x))

    torch.set_default_dtype(torch.half)
    with torch.device("cuda"):
        network = Decoder().eval()
    torch.set_default_dtype(torch.float)
    ids = torch.full((1, 1), 7, device="cuda")
    row = {"graph_ms": gpu_peers.median(gpu_peers.captured(lambda: network(ids)))}
    compiled = (gpu_peers.autotuned if arguments.tuned else torch.compile)(network)
    compiled(ids)
    return row | {"compile_graph_ms": gpu_peers.median(gpu_peers.captured(lambda: compiled(ids)))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1b", choices=SIZES)
    parser.add_argument("--past", type=int, default=512)
    parser.add_argument("--room", type=int, default=2048)
    parser.add_argument("--write", help="write the model here and do nothing else")
    parser.add_argument("--kernels", type=int, default=12, help="slowest kernels to show")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--tuned", action="store_true", help="PyTorch compiles with max-autotune")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    if arguments.write:
        return write_model(Path(arguments.write), arguments.size, arguments.room)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decoder.onnx")
        write_model(path, arguments.size, arguments.room)
        row = {"decoder": arguments.size, "past": arguments.past, "room": arguments.room, **weft_row(path, arguments)}
    print(row.pop("kernels", row.get("error", "")), flush=True)
    if arguments.peers:
        row |= torch_rows(arguments)
    gpu.tell("token of a decoder on a GPU", row, arguments.out)


if __name__ == "__main__":
    main()
