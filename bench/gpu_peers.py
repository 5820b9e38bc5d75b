# SPDX-License-Identifier: Apache-2.0
"""Times the same networks and single operators in PyTorch and in Weft on one GPU, in 16-bit floats: medians by the
device's clock. All take turns, except products of 8-bit floats.

  python bench/gpu_peers.py [--only resnet50,bert_base,vit_b_16,gemm,few,gemm8,odd,attention,rows] [--weft] [--tuned]
                            [--out results.jsonl]

--only also takes the other bench models, such as gpt2_decode: PyTorch runs their modules of bench/models/networks.py.
With --weft, Weft runs the same network, with fixed sizes. With --tuned PyTorch compiles with max-autotune, which takes
minutes.

Needs torch, torchvision, transformers, timm and onnx; WEFT_COMMAND names the command line.
"""

import argparse
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import gpu
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from weft_library import OnDevice, Program

import fill  # isort: skip  (gpu puts its folder on the search path)

warnings.filterwarnings("ignore")
torch.set_grad_enabled(False)


def median(run, repeats=50, warm=10):
    for _ in range(warm):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return round(statistics.median(times), 5)


def captured(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def resnet50(batch):
    import torchvision

    network = torchvision.models.resnet50(weights=None).eval().half().cuda().to(memory_format=torch.channels_last)
    return network, torch.randn(batch, 3, 224, 224, device="cuda").half().contiguous(memory_format=torch.channels_last)


def vit_b_16(batch):
    import timm

    network = timm.create_model("vit_base_patch16_224", pretrained=False).eval().half().cuda()
    return network, torch.randn(batch, 3, 224, 224, device="cuda").half()


def bert_base(batch, seq=128):
    from transformers import BertConfig, BertModel

    network = BertModel(BertConfig()).eval().half().cuda()
    return network, torch.randint(0, 30000, (batch, seq), device="cuda")


class OnGpu(torch.nn.Module):
    """Runs a module with the GPU as the default device for tensors that the module creates."""

    def __init__(self, core):
        super().__init__()
        self.core = core

    def forward(self, *inputs):
        with torch.device("cuda"):
            return self.core(*inputs)


def exported(name, batch):
    """Returns a module of bench/models/networks.py and its inputs: the sizes of its first case, but with this batch."""
    from networks import NETWORKS as modules

    network = modules[name]()
    feeds = fill.feeds(name, fill.cases(name)[0] | {"batch": batch})
    inputs = [torch.from_numpy(feeds[key]).cuda() for key in network.inputs]
    return OnGpu(network.module).eval().half().cuda(), *(x.half() if x.is_floating_point() else x for x in inputs)


def bert_base_s384(batch):
    return bert_base(batch, 384)


NETWORKS = {"resnet50": resnet50, "vit_b_16": vit_b_16, "bert_base": bert_base, "bert_base_s384": bert_base_s384}


def weft_network(name, batch):
    """Returns a function that runs a bench model with fixed sizes on device memory, on torch's current stream."""
    model, _, seq = name.partition("_s")
    sizes = fill.cases(model)[0] | {"batch": batch} | ({"seq": int(seq)} if seq else {})
    return on_device(Program(fill.cached(model), 0, "f16", sizes, "gpu"), fill.feeds(model, sizes))


def on_device(program, feeds):
    results = [np.array(array) for array in program.run(feeds).values()]
    return OnDevice(program, feeds, results, queued=True).run


def autotuned(network):
    return torch.compile(network, mode="max-autotune-no-cudagraphs")


def pytorch_ways(name, batch, compiler=torch.compile):
    """Compiles a network by PyTorch. Returns a row that describes that, and the functions that run the network."""
    make = NETWORKS.get(name) or (lambda size: exported(name, size))
    network, *x = make(batch)
    row, ways = {"network": name, "batch": batch, "precision": "f16"}, {"eager_ms": lambda: network(*x)}
    try:
        ways["graph_ms"] = captured(ways["eager_ms"])
        torch._dynamo.reset()  # otherwise the second batch of a network makes PyTorch compile it for any size
        start = time.time()
        compiled = compiler(network)
        compiled(*x)
        row["torch_compile_s"] = round(time.time() - start, 2)
        ways["compile_graph_ms"] = captured(lambda: compiled(*x))
    except Exception as problem:  # some networks fail in some modes
        row["torch_failure"] = str(problem)[:300]
    return row, ways


def network_modes(name, batch, ours, compiler=torch.compile):
    """Times PyTorch's modes on a network, and Weft's run `ours` if it is given, in turns."""
    row, ways = pytorch_ways(name, batch, compiler)
    if ours:
        ways["ms"] = ours
    return row | dict(zip(ways, in_turns(list(ways.values())), strict=True))


def one_operator(folder, op, shapes, output, name="", inputs=1, **attributes):
    """Writes a model of one operator on f16 values and returns its path. The first `inputs` operands are inputs, the rest
    are weights."""
    weights = [
        onnx.numpy_helper.from_array(np.random.default_rng(1).standard_normal(shape).astype(np.float16) * 0.1, f"x{i}")
        for i, shape in enumerate(shapes)
        if i >= inputs
    ]
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT16, shapes[i]) for i in range(inputs)]
    node = helper.make_node(op, [f"x{i}" for i in range(len(shapes))], ["y"], **attributes)
    graph = helper.make_graph(
        [node], op, inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT16, output)], weights
    )
    path = Path(folder, f"{op}{name}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    return path


def weft_ms(path):
    return gpu.measured(path, "gpu", "f32", [], 1)


def in_turns(runs, rounds=11, milliseconds=20):
    """Returns the median time of each function by the device's clock, in rounds in which the functions take turns and run
    for as many milliseconds each: a GPU that runs one function for long lowers its clock."""

    def burst(run, count):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for _ in range(count):
            run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / count

    for run in runs:
        burst(run, 3)
    counts = [max(1, round(milliseconds / burst(run, 3))) for run in runs]
    times = [[] for _ in runs]
    for turn in range(rounds):
        for at in range(len(runs)):
            mine = (turn + at) % len(runs)  # each function follows each other one
            times[mine].append(burst(runs[mine], counts[mine]))
    return [round(statistics.median(mine), 5) for mine in times]


def beside(path, inputs, shape, runs):
    """Times a model and PyTorch's functions, called directly and from a CUDA graph, in turns. Returns {"ms", "torch_ms"},
    with the time of the fastest way of PyTorch, or {"error"} if the model does not run."""
    try:
        feeds = {f"x{i}": x.cpu().numpy() for i, x in enumerate(inputs)}
        ours = OnDevice(Program(path, 0, "f16", {}, "gpu"), feeds, [np.empty(shape, np.float16)], queued=True)
        ours.run()
    except RuntimeError as problem:
        return {"error": str(problem)}
    ways = [way for run in runs for way in (run, captured(run))]
    ms, *theirs = in_turns([ours.run, *ways])
    return {"ms": ms, "torch_ms": min(theirs)}


SIZES = (4096, 4096, 4096), (8192, 8192, 8192), (512, 4096, 4096), (64, 8192, 8192), (1, 4096, 14336)
# Weights of language models, times the tokens of a few requests. None is in gpu_tiles.py, to which tiles were fitted.
FEW_ROWS = (
    (12, 11008, 4096), (24, 5120, 5120), (40, 18944, 3584), (48, 13824, 5120), (96, 5120, 13824), (112, 2048, 2048),
    (192, 3584, 3584), (200, 8192, 3072),
)  # fmt: skip


def gemms(sizes=SIZES):
    for m, n, k in sizes:
        a, b = torch.randn(m, k, device="cuda").half(), torch.randn(n, k, device="cuda").half()
        with tempfile.TemporaryDirectory() as folder:
            path = one_operator(folder, "MatMul", [[m, k], [k, n]], [m, n])
            times = beside(path, [a], [m, n], [lambda a=a, b=b: torch.nn.functional.linear(a, b)])
        row = {"gemm": [m, n, k], **times}
        if "ms" in row:
            row["tflops"], row["torch_tflops"] = (round(2 * m * n * k / row[t] / 1e9, 1) for t in ("ms", "torch_ms"))
        yield row


def odd_gemms(count=60):
    """Measures products of random sizes, most of them no multiple of 8, beside the faster of cuBLAS and cuBLASLt."""

    def linear(library, a, b):
        torch.backends.cuda.preferred_blas_library(library)
        return torch.nn.functional.linear(a, b)

    random = np.random.default_rng(60)
    for _ in range(count):
        m, n, k = (int(np.exp(random.uniform(np.log(low), np.log(6000)))) for low in (16, 64, 64))
        a, b = torch.randn(m, k, device="cuda").half(), torch.randn(n, k, device="cuda").half()
        with tempfile.TemporaryDirectory() as folder:
            path = one_operator(folder, "MatMul", [[m, k], [k, n]], [m, n])
            runs = [lambda library=library: linear(library, a, b) for library in ("cublas", "cublaslt")]
            yield {"gemm": [m, n, k], "sizes": "random", **beside(path, [a], [m, n], runs)}


def attentions():
    """Measures attention beside the faster of cuDNN's kernel and PyTorch's FlashAttention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(backend, q, k, v, causal):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    for batch, heads, tokens, size in ((32, 12, 512, 64), (8, 16, 1024, 64), (4, 16, 2048, 128), (2, 32, 4096, 128), (1, 16, 8192, 64)):
        for causal in (False, True):
            shape = [batch, heads, tokens, size]
            q, k, v = (torch.randn(shape, device="cuda").half() for _ in range(3))
            backends = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
            with tempfile.TemporaryDirectory() as folder:
                path = one_operator(folder, "Attention", [shape] * 3, shape, inputs=3, is_causal=int(causal))
                times = beside(path, [q, k, v], shape, [lambda b=b: attention(b, q, k, v, causal) for b in backends])
            row = {"operator": "attention" + ", causal" * causal, "shape": shape, **times}
            if "ms" in row:
                row["tflops"] = round(4 * batch * heads * tokens**2 * size / (2 if causal else 1) / row["ms"] / 1e9, 1)
            yield row


def float8_product(folder, m, n, k):
    """Writes a product of scaled e4m3 matrices with a result in f16; returns the path of the model."""
    kind, one = TensorProto.FLOAT8E4M3FN, [onnx.numpy_helper.from_array(np.float32(0.01), "scale")]
    codes = np.random.default_rng(1).integers(0, 240, (k, n)).astype(np.uint8)
    codes[(codes & 127) == 127] = 0  # these codes are NaN
    weights = [*one, helper.make_tensor("w", kind, [k, n], codes.tobytes(), raw=True)]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["wf"]),
        helper.make_node("MatMul", ["xf", "wf"], ["yf"]),
        helper.make_node("Cast", ["yf"], ["y"], to=TensorProto.FLOAT16),
    ]
    ports = [helper.make_tensor_value_info("x", kind, [m, k])], [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [m, n])]
    graph = helper.make_graph(nodes, "product", *ports, weights)
    path = Path(folder, "product.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def float8_gemms():
    """Measures products of e4m3 with results in f16, in Weft and by PyTorch's _scaled_mm, and the same products of f16 in
    Weft."""
    one = torch.ones((), device="cuda")
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (512, 4096, 4096)):
        a, b = (torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
        scaled = lambda a=a, b=b: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.float16)
        with tempfile.TemporaryDirectory() as folder:
            ours = weft_ms(float8_product(folder, m, n, k))
            half = weft_ms(one_operator(folder, "MatMul", [[m, k], [k, n]], [m, n]))
        row = {"gemm": [m, n, k], "type": "e4m3", "torch_ms": median(scaled), **ours}
        if "ms" in ours and "ms" in half:
            row["f16_ms"] = half["ms"]
        yield row


def rows():
    r, c = 16384, 4096
    x, w = torch.randn(r, c, device="cuda").half(), torch.ones(c, device="cuda").half()
    cases = {
        "Softmax": ([[r, c]], {"axis": -1}, lambda: torch.softmax(x, -1)),
        "LayerNormalization": ([[r, c], [c], [c]], {}, lambda: torch.nn.functional.layer_norm(x, [c], w, w)),
        "Gelu": ([[r, c]], {}, lambda: torch.nn.functional.gelu(x)),
    }
    for op, (shapes, attributes, run) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            times = beside(one_operator(folder, op, shapes, [r, c], **attributes), [x], [r, c], [run])
        yield {"operator": op, **times, "tbs": round(4 * r * c / times.get("ms", 1e9) / 1e9, 3)}
    y = torch.empty(1 << 29, dtype=torch.half, device="cuda")
    yield {"copy_tbs": round(4 * y.numel() / median(lambda: y.clone()) / 1e9, 3)}


KERNELS = {"gemm": gemms, "few": lambda: gemms(FEW_ROWS), "gemm8": float8_gemms, "odd": odd_gemms, "attention": attentions, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="gemm,rows,resnet50,bert_base,vit_b_16")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--weft", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--out")
    arguments = parser.parse_args()

    compiler = autotuned if arguments.tuned else torch.compile

    def results():
        for name in arguments.only.split(","):
            if name in NETWORKS or name in fill.names():
                for batch in arguments.batches.split(","):
                    ours = weft_network(name, int(batch)) if arguments.weft else None
                    yield network_modes(name, int(batch), ours, compiler)
            else:
                yield from KERNELS[name]()

    for row in results():
        gpu.tell("beside PyTorch on a GPU", row | ({"mode": "max-autotune"} if arguments.tuned else {}), arguments.out)


if __name__ == "__main__":
    main()
