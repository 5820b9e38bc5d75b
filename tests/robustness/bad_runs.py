# SPDX-License-Identifier: Apache-2.0
"""Invalid inputs, registered by name as in bad_inputs.py, that are noticed when a program runs, is loaded or is written
to the cache."""

import os
import subprocess

import numpy as np
from bad_inputs import bad, graph_of, info, node, plain, relu, save
from limits import BUILD
from onnx import helper


def run_with(folder, array, *words, dims=(2, 3)):
    save(folder, graph_of([helper.make_node("Relu", ["x"], ["y"])], [info("x", dims)]))
    if array is not None:
        np.save(folder / "a.npy", array)
    return ["run", "m.onnx", *words]


bad("41 another type")(lambda f: run_with(f, np.zeros((2, 3)), "-i", "x=a.npy"))
bad("41 another rank")(lambda f: run_with(f, np.zeros((2, 3, 1), np.float32), "-i", "x=a.npy"))
bad("41 another size")(lambda f: run_with(f, np.zeros((2, 4), np.float32), "-i", "x=a.npy"))
bad("41 another name")(lambda f: run_with(f, np.zeros((2, 3), np.float32), "-i", "xx=a.npy"))
bad("43 outside the range")(lambda f: run_with(f, np.zeros((40, 3), np.float32), "--shape", "x=1..32,3", "-i", "x=a.npy",
                                               dims=("b", 3)))
node("39 scale of 0", "QuantizeLinear", "x", "s", weights={"s": np.float32(0)})
bad("47 infinity in an output")(lambda f: save(f, graph_of([
    helper.make_node("Log", ["x"], ["y"], name="n")])) + ["--device", "ref", "--fill", "zeros", "--check-numerics"])
bad("49 GGUF file")(lambda f: plain(f, b"GGUF\x03\0\0\0" + b"\xff" * 16, "m.gguf"))
bad("49 safetensors file")(lambda f: plain(f, (9).to_bytes(8, "little") + b'{"w":{}} ', "m.safetensors"))
bad("44 no GPU")(lambda f: relu(f) + ["--device", "hip"])


bad("46 disk that is full")(lambda f: ["compile", relu(f)[1], "-o", "/dev/full"])

# --- saved programs


def saved(folder, change):
    relu(folder)
    subprocess.run([BUILD / "bin/weft", "compile", "m.onnx", "-o", "m.weft"], cwd=folder, check=True, capture_output=True)
    data = bytearray((folder / "m.weft").read_bytes())
    return plain(folder, bytes(change(data)), "m.weft")


def flipped(at):
    def change(data):
        data[at] ^= 1
        return data

    return change


bad("45 saved program cut")(lambda f: saved(f, lambda data: data[: len(data) // 2]))
bad("45 bit flipped in a saved program")(lambda f: saved(f, flipped(-1000)))
bad("45 saved program of another version")(lambda f: saved(f, lambda data: data[:8] + b"\xc8" + data[9:]))


@bad("46 cache that cannot be written")
def no_cache(folder):
    (folder / "file").write_text("")
    os.environ["WEFT_CACHE_DIR"] = str(folder / "file")
    return [*relu(folder), "--fill", "x=ones"]
