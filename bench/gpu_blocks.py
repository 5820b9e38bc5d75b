# SPDX-License-Identifier: Apache-2.0
"""Times products of few rows with weights of 4 or 8 bits (MatMulNBits) on a GPU, in f16. A model is a chain of such
products, which alternate between two widths; its weights are larger than the caches. Prints the microseconds of one
product. Also prints the bandwidth at which its weights and scales are read, as a share of the bandwidth of a large copy
(`of_copy`), and of copies that move as many bytes as the product reads (`of_equal_copy`): a chain of them in a CUDA
graph, over as much memory.

  python bench/gpu_blocks.py [--rows 1,2,4,8] [--bits 4] [--block 32] [--out results.jsonl]

Needs onnx, numpy and torch; WEFT_COMMAND names the command line. A copy's bytes are those read plus those written.
"""

import argparse
import tempfile
from pathlib import Path

import gpu
import numpy as np
import onnx
import torch
from gpu_peers import captured, in_turns
from onnx import TensorProto, helper

SHAPES = [(4096, 4096), (4096, 14336), (8192, 28672)]
CACHE = 200e6  # approximate bytes of a chain's weights: more than the caches hold


def bytes_of(wide, narrow, bits, block):
    """Returns the bytes of the weights and f16 scales of one product."""
    return wide * narrow * (bits / 8 + 2 / block)


def write_chain(path, first, second, rows, bits, block):
    """Writes the model; returns its number of products."""
    random, nodes, tensors, x, width = np.random.default_rng(1), [], [], "x", first
    pool = random.integers(0, 256, 1 << 24, dtype=np.uint8)
    count = 2 * max(1, round(CACHE / bytes_of(first, second, bits, block) / 2))
    for i in range(count):
        n, k = (second, width) if width == first else (first, width)
        data = np.resize(np.roll(pool, i * 12345), n * k * bits // 8).reshape(n, k // block, block * bits // 8)
        scales = (random.random((n, k // block)) + 0.5).astype(np.float16) / np.float16(2 ** (bits - 1) * np.sqrt(k))
        for name, array in ((f"w{i}", data), (f"s{i}", scales)):
            tensors.append(onnx.numpy_helper.from_array(array, name))
        nodes.append(helper.make_node("MatMulNBits", [x, f"w{i}", f"s{i}"], [f"y{i}"], domain="com.microsoft", K=k, N=n,
                                      bits=bits, block_size=block))
        x, width = f"y{i}", n if first != second else first
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT16, [rows, first])
    graph = helper.make_graph(nodes, "chain", [value("x")], [value(x)], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return count


def copy_speed(size, count):
    """Returns the GB/s of copies that move `size` bytes each, `count` of them in a CUDA graph: the faster of memcpy and an
    elementwise kernel."""
    pairs = [torch.zeros(2, size // 16, dtype=torch.int64, device="cuda") for _ in range(count)]
    ways = lambda pair: pair[1].copy_(pair[0]), lambda pair: torch.bitwise_not(pair[0], out=pair[1])
    chains = [captured(lambda copy=copy: [copy(pair) for pair in pairs]) for copy in ways]
    return size * count / min(in_turns(chains)) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1,2,4,8")
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    large = copy_speed(1 << 32, 2)
    for first, second in SHAPES:
        for rows in map(int, arguments.rows.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "chain.onnx")
                count = write_chain(path, first, second, rows, arguments.bits, arguments.block)
                found = gpu.measured(path, "gpu", "f16", [], 0)
            row = {"k": first, "n": second, "rows": rows, "bits": arguments.bits, "block": arguments.block, "products": count}
            if "ms" in found:
                us = found["ms"] * 1000 / count
                size = int(bytes_of(first, second, arguments.bits, arguments.block))
                speed, equal = size / us / 1000, copy_speed(size, max(count, 4))
                row |= {"us": round(us, 2), "gb_s": round(speed), "copy_gb_s": round(large), "equal_copy_gb_s": round(equal),
                        "of_copy": round(speed / large, 2), "of_equal_copy": round(speed / equal, 2)}
            else:
                row |= found
            gpu.tell("product with few-bit weights on a GPU", row, arguments.out)


if __name__ == "__main__":
    main()
