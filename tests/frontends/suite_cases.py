# SPDX-License-Identifier: Apache-2.0
"""ONNX's own test cases as a user of Weft would run them: `weft.compile(model)`, `model.run(inputs)`, with the sizes
and inputs of each case. `suite_cases.py DEVICE [PATTERN]` runs the cases whose names match on any device."""
import argparse
import dataclasses
import functools
import math
import multiprocessing
import os
import pathlib
import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release")) / "python"))

import weft

sys.path.append(str(ROOT / "tests"))
import onnx_node_cases

RUNS, SIGMAS = 50, 6  # for random cases; a correct generator exceeds 6 sigma once in 500 million
# The relative tolerance: two units in the last place of the type. The expected values were rounded to the type between
# operators; Weft's values are not.
ROUNDING = {"bfloat16": 2**-6, "float16": 2**-9}
# The expected values themselves carry the rounding noise of a Fourier transform in f32.
LEAST_ABSOLUTE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


@dataclasses.dataclass
class Case:
    name: str
    model: onnx.ModelProto
    inputs: dict
    outputs: dict
    relative: float = 1e-3
    absolute: float = 1e-7


def named(ports, values):
    return {port.name: value for port, value in zip(ports, values, strict=False)}


def value_of(value):
    """Returns a value of the test data as a Python object: an array, a list of values, or None."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [value_of(item) for item in value]
    return value if value is None else np.asarray(value)


@functools.cache
def node_cases():
    cases = []
    for case in onnx_node_cases.node_cases():
        graph = case.model.graph
        inputs, outputs = ([value_of(value) for value in values] for values in case.data_sets[0])
        absolute = max(case.atol, LEAST_ABSOLUTE.get(case.name, 0))
        cases.append(Case(case.name, case.model, named(graph.input, inputs), named(graph.output, outputs), case.rtol, absolute))
    return cases


def read_value(file, kind):
    """Returns a value of the test data on disk; `kind` is the TypeProto of its port."""
    data = file.read_bytes()
    if kind.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.WhichOneof("value") == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def case_on_disk(folder):
    """Returns a case with the first of its sets of data."""
    model = onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"

    def values(prefix, ports):
        files = [data / f"{prefix}_{i}.pb" for i in range(len(ports))]
        return {port.name: read_value(file, port.type) for file, port in zip(files, ports, strict=True) if file.exists()}

    return Case(folder.name, model, values("input", model.graph.input), values("output", model.graph.output))


def difference(got, want, case):
    """Returns what is wrong with `got`; "" if it is right."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{type(got).__name__} where a list of {len(want)} is right"
        found = [difference(g, w, case) for g, w in zip(got, want, strict=True)]
        return next((f"item {i}: {text}" for i, text in enumerate(found) if text), "")
    if want is None or got is None:
        return "" if got is want else f"{got} where {want} is right"
    if want.dtype.kind in "OSU":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in want.ravel()]
        return "" if got.shape == want.shape and got.ravel().tolist() == texts else f"{got} where {want} is right"
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is right"
    kind = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = got.astype(kind), want.astype(kind)
        relative = max(case.relative, ROUNDING.get(want.dtype.name, 0))
        wrong = ~((got == want) | (np.isnan(a) & np.isnan(b)) | (abs(a - b) <= case.absolute + relative * abs(b)))
    first = np.argwhere(wrong)
    return f"element {first[0].tolist()} is {a[tuple(first[0])]} where {b[tuple(first[0])]} is right" if len(first) else ""


# --- Random cases: the expected values are numbers that numpy's generator drew ------------------------------------


def kept_chances(case):
    """Returns the probability that a random case keeps each element, or None for other cases."""
    if case.name.startswith("test_bernoulli"):
        chances = case.inputs["x"].astype(float)
        # The expanded form of Bernoulli gives 1 where the random number is greater than the input.
        return 1 - chances if "expanded" in case.name else chances
    if case.name.startswith("test_training_dropout") and "zero_ratio" not in case.name:
        return np.full(case.inputs["x"].shape, 1 - float(case.inputs.get("r", 0.5)))
    return None


def has_seed(message):
    """True if a node, or one in a function's body, has a seed."""
    nodes = [*message.graph.node, *(node for function in message.functions for node in function.node)]
    return any(attribute.name == "seed" for node in nodes for attribute in node.attribute)


def kept_elements(case, outputs, chances):
    """Returns the elements that a run kept; a string with the fault if no correct run gives such outputs."""
    y, x = outputs[0], case.inputs["x"]
    for got, want in zip(outputs, case.outputs.values(), strict=True):
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is right"
    if case.name.startswith("test_bernoulli"):
        return y.astype(bool) if np.isin(y, (0, 1)).all() else f"{y} is not of 0 and 1"
    kept = (y != 0) | (x == 0)
    if not np.allclose(y, np.where(kept, x / chances, 0), rtol=1e-5):
        return "kept elements are not scaled by the share that is kept"
    if len(outputs) > 1 and not np.array_equal(outputs[1], kept):
        return "the mask does not say which elements are kept"
    return kept


def judge_random(case, model, chances):
    """Compares the shares of kept elements over many runs, for each element and for all elements together. With a seed
    all runs must be equal, without a seed they must differ."""
    kept = [kept_elements(case, list(model.run(case.inputs).values()), chances) for _ in range(RUNS)]
    text = next((k for k in kept if isinstance(k, str)), "")
    if text:
        return text
    is_same = all(np.array_equal(k, kept[0]) for k in kept)
    if is_same != has_seed(case.model):
        return f"{RUNS} runs are {'' if is_same else 'not '}the same, {'with' if has_seed(case.model) else 'without'} a seed"
    drawn = kept[:1] if is_same else kept
    spread = chances * (1 - chances) / len(drawn)
    shares = np.mean(drawn, axis=0) - chances
    if (abs(shares) > SIGMAS * np.sqrt(spread) + (1 if is_same else 0)).any():
        return f"elements are kept {shares + chances} of the time where {chances} is right"
    if abs(shares.sum()) > SIGMAS * math.sqrt(spread.sum()):
        return f"{shares.sum() / shares.size:+.3f} more are kept than should be"
    return ""


# --- Verdicts -----------------------------------------------------------------------------------------------------------------


def judge(case, device, **options):
    """Returns the verdict: "right" and the names of host kernels, "wrong: " and the fault, or "refused: " and the
    error."""
    try:
        model = weft.compile(case.model.SerializeToString(), device=device, threads=2, **options)
        chances = kept_chances(case)
        if chances is not None:
            text = judge_random(case, model, chances)
            return f"wrong: {text}" if text else "right"
        outputs = model.run(case.inputs)
        for name, want in case.outputs.items():
            if text := difference(outputs[name], want, case):
                return f"wrong: output '{name}': {text}"
    except weft.Error as error:
        return f"refused: {error}"
    return " ".join(["right", *(step["kernel"] for step in model.steps() if step["kernel"].startswith("host_"))])


def is_right(verdict):
    return verdict.split(" ")[0] == "right"


def faults(verdicts):
    return {name: verdict for name, verdict in verdicts.items() if not is_right(verdict)}


def judge_named(task):
    index, device = task
    case = node_cases()[index]
    return case.name, judge(case, device).replace("\n", " ")


def main():
    """Prints each case that is not right, and the counts of all; --out appends the counts to a file of
    bench/results."""
    sys.path.append(str(ROOT / "bench"))
    import machine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", help="a file of bench/results")
    args = parser.parse_args()
    chosen = [i for i, case in enumerate(node_cases()) if re.match(args.pattern, case.name)]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        verdicts = dict(pool.imap_unordered(judge_named, [(i, args.device) for i in chosen], chunksize=4))
    for name, verdict in sorted(verdicts.items()):
        if verdict != "right":
            print(name, verdict, flush=True)
    found = faults(verdicts)
    refused = sum(verdict.startswith("refused") for verdict in found.values())
    values = {"right": len(verdicts) - len(found), "wrong": len(found) - refused, "refused": refused}
    of = {"through": "`weft.compile` and `run`", "device": args.device}
    machine.tell(machine.result("ONNX node cases", of, values, machine=machine.of_device(args.device)), args.out)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
