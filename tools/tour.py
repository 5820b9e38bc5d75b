#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the outputs in docs/tour.md, which follows one small model through every stage.

usage: tools/tour.py [--check] [--bin build/release/bin]     # --check: fails if the page is not what this would write
       tools/tour.py --model FILE                            # writes the model, to repeat the commands of the page

The page holds `<!-- tour: NAME -->...<!-- end -->`; the text between is the output of the function NAME below. Outputs
are real but shortened: attributes with their usual values, hashes in names, and lines that only declare a size are left
out.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/tour.md"
CPU = "cpu:x86-64-v3"
NODES = [("conv", "Conv", "x filters bias", {"pads": [1, 1, 1, 1]}), ("scaled", "Div", "conv root_of_2", {}),
         ("erf", "Erf", "scaled", {}), ("share", "Add", "erf one", {}), ("gated", "Mul", "conv share", {}),
         ("gelu", "Mul", "gated half", {}), ("mean", "ReduceMean", "gelu space", {"keepdims": 0}),
         ("scores", "MatMul", "mean weights", {}), ("y", "Softmax", "scores", {})]
USUAL = r"(strides|dilations)=\[1, 1\]|groups=1|transposed=false|output_padding=\[\]|type=f32|log=false|keep=false"


def model():
    random = np.random.default_rng(0)
    values = {"filters": random.integers(-8, 9, (8, 3, 3, 3)) / 8, "bias": random.integers(-8, 9, 8) / 8,
              "weights": random.integers(-8, 9, (8, 10)) / 8, "root_of_2": np.sqrt(2), "one": 1, "half": 0.5}
    weights = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in values.items()]
    weights.append(numpy_helper.from_array(np.array([2, 3]), "space"))
    nodes = [helper.make_node(op, inputs.split(), [name], name, **words) for name, op, inputs, words in NODES]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *dims])
             for name, dims in (("x", [3, 32, 32]), ("y", [10]))]
    graph = helper.make_graph(nodes, "tour", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class Tour:
    """The blocks of the page, by name."""

    def __init__(self, programs, folder):
        self.programs, self.file = pathlib.Path(programs).resolve(), folder / "tour.onnx"
        onnx.save(model(), self.file)
        self.plan = self.output("weft-plan", CPU)

    def output(self, program, *words):
        verb = words[:1] if program == "weft" else ()
        command = [self.programs / program, *verb, self.file.name, *words[len(verb):]]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.file.parent, check=False)
        if done.returncode:
            sys.exit(f"{command}: {done.stderr}")
        return re.sub(r"(?<=[a-z0-9])_[0-9a-f]{6}\b", "", done.stdout)

    def program(self, *words):
        text = self.output("weft", "inspect", "--ir", *words)
        text = re.sub(rf"(?<=[{{ ])({USUAL})(, |(?=\}}))", "", text)
        text = re.sub(r"@([0-9a-f]{6})[0-9a-f]{26}", r"@\1..", re.sub(r", \}", "}", text)).replace(" {}", "")
        return re.sub(r"from \"node \d+ ('\w+') \(\w+\)\"", r"from \1", text)

    def nodes(self):
        return "\n".join(f"{name} = {op}({', '.join(inputs.split())})" for name, op, inputs, _ in NODES)

    def imported(self):
        return self.program()

    def normalised(self):
        return self.program("--stage", "normalise")

    def prepared(self):
        return self.program("--stage", "final", "--device", CPU)

    def explained(self):
        return self.output("weft", "explain", "--device", CPU, "--threads", "1")

    def part(self, first, last):
        return self.plan[self.plan.index(first) : self.plan.index(last)]

    def steps(self):
        lines = self.part("load steps", "\nbuffers\n").splitlines()
        return "\n".join(re.sub(" blocks 0 work 0", "", line) for line in lines if "  why" not in line)

    def buffers(self):
        return re.sub(r" shares -1| steps \d+\.\.-1", "", self.part("\nbuffers\n", "\nkernel"))

    def kernel(self):
        text = self.part("#include \"conv.h\"", "\nkernel reduce")
        text = re.sub(r"\n  \[\[maybe_unused\]\] (auto b|const i64 s)\d.*", "", text)
        return re.sub(r", (\.in|\.stride|\.pad|tasks::gemm_units)\b", r",\n      \1", text.replace("[[maybe_unused]] ", ""))

    def gpu(self):
        return self.output("weft", "explain", "--device", "amd:gfx942")


def page(tour):
    def fresh(match):
        return f"<!-- tour: {match[1]} -->\n```\n{getattr(tour, match[1])().strip()}\n```\n<!-- end -->"
    return re.sub(r"<!-- tour: (\w+) -->.*?<!-- end -->", fresh, PAGE.read_text(), flags=re.S)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--bin", default=ROOT / "build/release/bin")
    parser.add_argument("--model")
    options = parser.parse_args()
    if options.model:
        onnx.save(model(), options.model)
        return
    with tempfile.TemporaryDirectory() as folder:
        text = page(Tour(options.bin, pathlib.Path(folder)))
    if not options.check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not current: run ./x python tools/tour.py")


if __name__ == "__main__":
    main()
