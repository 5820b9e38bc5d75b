# SPDX-License-Identifier: Apache-2.0
"""Makes an ONNX model of the kernels that take most time, at sizes that select their usual tiles. `main_kernels.py
CHIP` prints the resources that they need on that chip, and an estimate of how busy its matrix units would be."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

import assembly
import resources

AMD = resources.CHIPS
NVIDIA = ["sm_80", "sm_90a"]

# The function in the epilogue identifies the kernel of a product or convolution. relu: a product with constant weights;
# tanh: a product of two inputs; sigmoid: a product of one row; abs: a 3x3 convolution; neg: a 1x1 convolution; erf: a
# depthwise convolution.


class Graph:
    def __init__(self):
        self.nodes, self.inputs, self.outputs, self.weights = [], [], [], []

    def input(self, name, *dims, type=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, type, dims))
        return name

    def stored(self, name, *dims):
        """Returns an input that passes through a kernel, so that it has the layout of kernel results."""
        return self.node("Ceil", self.input(name, *dims))

    def weight(self, name, *dims, type=np.float32):
        numbers = (np.arange(np.prod(dims)) % 13 - 6).reshape(dims).astype(type)
        return self.constant(name, numbers / 64 if type == np.float32 else numbers)

    def constant(self, name, numbers):
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(numbers), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def output(self, value, type=TensorProto.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(value, type, None))


def model(part=1):
    """Returns the model, with sizes divided by `part` for the emulator."""
    g = Graph()
    m, k, n, wide = 512 // part, 1024 // part, 1024 // part, 4096 // part
    x = g.stored("x", m, k)
    g.output(g.node("Relu", g.node("MatMul", x, g.weight("w", k, n))))
    g.output(g.node("Tanh", g.node("MatMul", g.stored("a", 8, 256 // part, 256 // part), g.stored("b", 8, 256 // part, 256 // part))))
    g.output(g.node("Sigmoid", g.node("MatMul", g.stored("row", 1, k), g.weight("w_row", k, wide))))
    image = g.stored("image", 1, 64, 56 // part, 56 // part)
    g.output(g.node("Abs", g.node("Conv", image, g.weight("w3", 128, 64, 3, 3), pads=[1, 1, 1, 1])))
    g.output(g.node("Neg", g.node("Conv", image, g.weight("w1", 256, 64, 1, 1))))
    g.output(g.node("Erf", g.node("Conv", image, g.weight("wd", 64, 1, 3, 3), pads=[1, 1, 1, 1], group=64)))
    q, k_, v = (g.stored(name, 1, 8, 512 // part, 64) for name in ("q", "k", "v"))
    scores = g.node("Mul", g.node("MatMul", q, g.node("Transpose", k_, perm=[0, 1, 3, 2])), g.constant("scale", np.float32([0.125])))
    g.output(g.node("MatMul", g.node("Softmax", scores, axis=-1), v))
    rows = g.stored("rows", 2048 // part, n)
    g.output(g.node("Softmax", rows, axis=-1))
    g.output(g.node("LayerNormalization", rows, g.weight("gamma", n), g.weight("beta", n)))
    g.output(g.node("ReduceMean", rows, g.constant("axis", np.array([1])), keepdims=0))
    g.output(g.node("Gelu", g.node("Add", rows, g.weight("bias", n))))
    g.output(g.node("Gather", g.weight("table", 1000, 768), g.input("index", 128, type=TensorProto.INT64)))
    graph = helper.make_graph(g.nodes, "main_kernels", g.inputs, g.outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def compiled(chip, precision, folder):
    """Returns kernels (resources.Kernel; none for NVIDIA) and the assembly of each, by name."""
    path = pathlib.Path(folder) / "main_kernels.onnx"
    if not path.exists():
        onnx.save(model(), path)
    vendor = "nvidia" if chip.startswith("sm_") else "amd"
    cache = pathlib.Path(folder) / f"cache-{chip}-{precision}"
    command = [resources.BUILD / "bin/weft", "compile", path, "--device", f"{vendor}:{chip}", "--precision", precision,
               "-o", pathlib.Path(folder) / "main_kernels.weft"]
    environment = os.environ | {"WEFT_CACHE_DIR": str(cache), "WEFT_DEBUG": "6,plan", "WEFT_GPU_MERGE": "0"}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return resources.kernels_in(cache), assembly.functions(done.stderr, chip)


def busiest_loop(lines, chip):
    """Returns the counts of instructions by kind in the innermost loop with the most matrix instructions."""
    loops = [assembly.counts(loop, chip) for loop in assembly.innermost_loops(lines, chip)]
    return max(loops, key=lambda c: (c["matrix"], sum(c.values())), default=None)


# The clocks for which a 16x16x16 product of f16 occupies a SIMD's matrix unit; a wave of 64 issues one vector
# instruction in four clocks.
MATRIX_CLOCKS = {"gfx90a": 32, "gfx942": 16, "gfx1100": 32, "gfx1151": 32, "gfx1200": 16, "gfx1201": 16}


def matrix_share(loop, chip):
    """Estimates how busy the matrix unit is: its clocks divided by the clocks of the busiest of three units. These are
    the matrix unit, the vector unit, and local memory. An access to local memory moves 16 bytes per lane, at 32 bytes
    per clock and SIMD. Waits are not counted."""
    if chip not in MATRIX_CLOCKS or not loop["matrix"]:
        return None
    wide = chip.startswith("gfx9")
    matrix = loop["matrix"] * MATRIX_CLOCKS[chip]
    vector = loop["vector"] * (4 if wide else 1)
    lds = loop["lds"] * (64 if wide else 32) * 16 / 32
    return matrix / max(matrix, vector, lds)


def main():
    for chip in sys.argv[1:]:
        for precision in ("f32", "f16"):
            with tempfile.TemporaryDirectory() as folder:
                kernels, texts = compiled(chip, precision, folder)
            known = {kernel.name: kernel for kernel in kernels}
            for name, lines in texts.items():
                loop = busiest_loop(lines, chip)
                share = matrix_share(loop, chip) if loop else None
                print(chip, precision, name, *(known.get(name, ())[1:8]), dict(loop or {}), f"{share:.0%}" if share else "")


if __name__ == "__main__":
    main()
