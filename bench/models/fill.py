# SPDX-License-Identifier: Apache-2.0
"""Makes an ordinary ONNX file from a graph without weights.

  python bench/models/fill.py resnet50 [resnet50.onnx]     # without a target: writes into the cache folder and prints the path
  python bench/models/fill.py --list

`NAME.onnx` beside this script is a valid model whose large weights are inputs. `NAME.json` says how to make each of
them from a seed, so that the file is the same, bit for bit, wherever it is made. Needs only numpy and onnx.

The generator: element k (from 0) of weight `w` comes from the 64 bits z = mix(key + (k + 1) * 0x9E3779B97F4A7C15),
modulo 2^64, where key is the first 8 bytes (little-endian) of the SHA-256 of "seed/w", and mix is the final mixing
function of splitmix64.
  uniform [low, high]    low + (z >> 40) * ((high - low) / 2^24)
  normal [mean, std]     mean + (sum of the four 16-bit quarters of z - 131070) * (std / 37837.2): bell curve, +-3.46 std
  integers [low, high]   low + ((z >> 32) * (high - low) >> 32): whole numbers, high excluded
  constant c             c everywhere
  count [first, step]    first + k * step
  prefix share           1 in the first part of the last axis (rounded up), then 0: an attention mask
  quantized {model, weight, scale}   rint(weight of the other model / scale), clipped; one scale, or one per index of axis 0
Floating-point factors are rounded to f32 first; then one f32 product and one f32 sum, each rounded.
"""

import argparse
import hashlib
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

HERE = Path(__file__).resolve().parent
CHUNK = 1 << 16  # elements made at a time: the working set stays in the second-level cache
GOLDEN, MIX1, MIX2 = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
QUARTERS_MEAN, QUARTERS_STD = 131070, 37837.2


def names():
    return sorted(path.stem for path in HERE.glob("*.json"))


@cache
def recipe(name):
    """Returns the content of `NAME.json`, as `export.py` wrote it."""
    return json.loads((HERE / f"{name}.json").read_text())


def bits(key, first, count):
    """Returns elements first .. first + count - 1 of the stream of `key`, u64."""
    with np.errstate(over="ignore"):
        z = np.arange(first + 1, first + 1 + count, dtype=np.uint64) * GOLDEN + np.uint64(key)
        z ^= z >> np.uint64(30)
        z *= MIX1
        z ^= z >> np.uint64(27)
        z *= MIX2
        z ^= z >> np.uint64(31)
    return z


def as_normal(z, mean, std):
    parts = z.view(np.uint16).reshape(-1, 4)
    total = parts[:, 0].astype(np.int32)
    for quarter in (1, 2, 3):
        total += parts[:, quarter]
    return (total - QUARTERS_MEAN).astype(np.float32) * np.float32(std / QUARTERS_STD) + np.float32(mean)


def as_uniform(z, low, high):
    return (z >> np.uint64(40)).astype(np.float32) * np.float32((high - low) / (1 << 24)) + np.float32(low)


def as_integers(z, low, high):
    return (((z >> np.uint64(32)) * np.uint64(high - low)) >> np.uint64(32)).astype(np.int64) + low


DRAWN = {"normal": as_normal, "uniform": as_uniform, "integers": as_integers}


def draw(how, dims, dtype, seed, name):
    """Returns an array that is drawn as an entry of a recipe describes, such as {"normal": [0, 0.02]}; `seed` and
    `name` choose the stream."""
    ((kind, value),) = how.items()
    count = int(np.prod(dims))
    if kind == "constant":
        return np.full(dims, value, dtype)
    if kind == "count":
        return (value[0] + value[1] * np.arange(count)).astype(dtype).reshape(dims)
    if kind == "prefix":
        return np.broadcast_to(np.arange(dims[-1]) < np.ceil(value * dims[-1]), dims).astype(dtype)
    if kind not in DRAWN:
        raise ValueError(
            f"{name}: no generator is called '{kind}'; there are constant, count, prefix, {', '.join(DRAWN)}"
        )
    key = int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "little")
    out = np.empty(count, dtype)
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first)
        out[first : first + size] = DRAWN[kind](bits(key, first, size), *value)
    return out.reshape(dims)


def kept(graph, name):
    """Returns a weight stored in the graph itself, or None."""
    return next((numpy_helper.to_array(weight) for weight in graph.initializer if weight.name == name), None)


def one_weight(name, weight):
    """Returns one weight of a model, drawn or kept."""
    model, wanted = load_stripped(name)
    if weight not in wanted:
        return kept(model.graph, weight)
    return draw(recipe(name)["weights"][weight], *wanted[weight], recipe(name)["seed"], weight)


def quantized(how, graph, dtype):
    """Returns the weight of the unquantised model divided by the scales that calibration found, and rounded."""
    weight, scale = one_weight(how["model"], how["weight"]), kept(graph, how["scale"])
    limits = np.iinfo(dtype)
    steps = np.rint(weight / scale.reshape([-1] + [1] * (weight.ndim - 1)))
    return np.clip(steps, limits.min, limits.max).astype(dtype)


def load_stripped(name):
    """Loads the graph without weights; returns it and {name of a missing weight: (dims, dtype)}."""
    model = onnx.load(HERE / f"{name}.onnx")
    wanted = {}
    for value in model.graph.input:
        if value.name in recipe(name)["weights"]:
            tensor = value.type.tensor_type
            dims = [dim.dim_value for dim in tensor.shape.dim]
            wanted[value.name] = dims, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return model, wanted


def filled(name):
    """Returns the whole model as a ModelProto: inputs that replace weights become initializers."""
    if name not in names():
        raise SystemExit(f"no model is called '{name}'; there are {', '.join(names())}")
    model, wanted = load_stripped(name)
    graph, how = model.graph, recipe(name)
    for weight, (dims, dtype) in wanted.items():
        kind = how["weights"][weight]
        value = (
            quantized(kind["quantized"], graph, dtype)
            if "quantized" in kind
            else draw(kind, dims, dtype, how["seed"], weight)
        )
        graph.initializer.append(numpy_helper.from_array(value, weight))
    inputs = [value for value in graph.input if value.name not in wanted]
    del graph.input[:]
    graph.input.extend(inputs)
    return model


def feeds(name, sizes, seed=1):
    """Returns inputs for a run of the model: {input name: array}. `sizes` gives every symbol a number."""
    model, wanted = load_stripped(name)
    arrays = {}
    for value in model.graph.input:
        if value.name not in wanted:
            tensor = value.type.tensor_type
            dims = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            arrays[value.name] = draw(recipe(name)["inputs"][value.name], dims, dtype, seed, f"input/{value.name}")
    return arrays


def cases(name):
    """Returns the sizes at which the model is measured and checked: a list of {symbol: number}."""
    return [{symbol: size for symbol, size in case.items() if symbol != "gflop"} for case in recipe(name)["cases"]]


def cache_folder():
    base = os.environ.get("WEFT_BENCH_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "weft-bench"
    )
    Path(base).mkdir(parents=True, exist_ok=True)
    return Path(base)


def cached(name):
    """Returns the path of the whole model in the cache folder, and makes it if missing. Its name contains a hash of the
    graph, the recipes and this script."""
    if name not in names():
        raise SystemExit(f"no model is called '{name}'; there are {', '.join(names())}")
    parts = [HERE / f"{name}.onnx", HERE / f"{name}.json", Path(__file__)]
    others = {how["quantized"]["model"] for how in recipe(name)["weights"].values() if "quantized" in how}
    parts += [HERE / f"{other}.json" for other in sorted(others)]
    digest = hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:12]
    path = cache_folder() / f"{name}-{digest}.onnx"
    if not path.exists():
        write(name, path)
    return path


def write(name, path):
    part = Path(f"{path}.{os.getpid()}.part")
    onnx.save(filled(name), part)
    part.replace(path)  # atomic: another process sees the whole file or none


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="model, or 'all' for every one")
    parser.add_argument("target", nargs="?", help="file to write; without it, a file in the cache folder")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list or not arguments.name:
        print("\n".join(names()))
    elif arguments.target:
        write(arguments.name, arguments.target)
    else:
        for name in names() if arguments.name == "all" else [arguments.name]:
            print(cached(name))


if __name__ == "__main__":
    main()
